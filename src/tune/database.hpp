// Internal to tune: SQLite with errors as values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/files.hpp"
#include "base/result.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace opforge {

inline constexpr int kRecordsSchema = 2;

class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  ~Statement();
  Statement& bind(std::string_view text);  // parameters in order
  Statement& bind(std::int64_t value);
  Statement& bind(double value);  // NaN becomes NULL
  Result<bool> step();            // true: a row is there
  Status run();                   // to the end
  std::string text(int column) const;
  std::int64_t integer(int column) const;
  double number(int column) const;  // NULL reads as NaN

 private:
  friend class Database;
  Statement(sqlite3* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}
  sqlite3* db_;
  sqlite3_stmt* statement_;
  int next_ = 1;
};

class Database {
 public:
  static Result<Database> open(const Path& file, bool read_only);  // an empty path: in memory
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;
  ~Database();
  Result<Statement> prepare(std::string_view sql) const;
  Status execute(const char* sql) const;
  Status migrate(int to = kRecordsSchema) const;  // one transaction for each version
  Status copy_into(Database& other) const;
  std::int64_t changes() const;

 private:
  explicit Database(sqlite3* db, Path file) : db_(db), file_(std::move(file)) {}
  sqlite3* db_ = nullptr;
  Path file_;
};

// BEGIN IMMEDIATE now; rolled back when destroyed unless committed.
class Transaction {
 public:
  static Result<Transaction> begin(const Database& db);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(const Database* db) : db_(db) {}
  const Database* db_;
};

}  // namespace opforge
