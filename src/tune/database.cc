#include "tune/database.hpp"

#include <fmt/core.h>
#include <sqlite3.h>

#include <cmath>
#include <limits>
#include <utility>

namespace opforge {
namespace {

constexpr int kBusy_ms = 10000;

// Step i brings a database from version i to i + 1. Never edited once released: a new version is a
// new step.
constexpr const char* kMigrations[] = {
    "CREATE TABLE contexts("
    "  id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, op TEXT NOT NULL, dims TEXT NOT NULL, "
    "layout TEXT NOT NULL,"
    "  dtypes TEXT NOT NULL, attributes TEXT NOT NULL, contract TEXT NOT NULL, target TEXT NOT "
    "NULL,"
    "  device_model TEXT NOT NULL, driver INTEGER NOT NULL);"
    "CREATE TABLE trials("
    "  id INTEGER PRIMARY KEY, uid TEXT NOT NULL UNIQUE,"
    "  context INTEGER NOT NULL REFERENCES contexts(id) ON DELETE CASCADE,"
    "  code_key TEXT NOT NULL, outcome TEXT NOT NULL, finished_at INTEGER NOT NULL, record TEXT "
    "NOT NULL);"
    "CREATE INDEX trials_by_code ON trials(context, code_key, id);",
    "CREATE TABLE choices("
    "  context INTEGER PRIMARY KEY REFERENCES contexts(id) ON DELETE CASCADE,"
    "  code_key TEXT NOT NULL, finished_at INTEGER NOT NULL, record TEXT NOT NULL);",
};
static_assert(std::size(kMigrations) == kRecordsSchema);

tl::unexpected<Error> database_error(sqlite3* db, const Path& file, int status) {
  const std::string where =
      file.empty() ? "tuning records in memory" : "tuning records '" + file.string() + "'";
  const char* text = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(status);
  const int primary = status & 0xff;
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) {
    return fail(Code::kCorrupt,
                fmt::format("{}: {}; move the file away to start afresh", where, text),
                "tune/records");
  }
  if (primary == SQLITE_BUSY) {
    return fail(Code::kTimeout, fmt::format("{}: busy for {} s", where, kBusy_ms / 1000),
                "tune/records");
  }
  return fail(Code::kIo, fmt::format("{}: {}", where, text), "tune/records");
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : db_(other.db_), statement_(std::exchange(other.statement_, nullptr)), next_(other.next_) {}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::bind(std::string_view text) {
  sqlite3_bind_text64(statement_, next_++, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind(std::int64_t value) {
  sqlite3_bind_int64(statement_, next_++, value);
  return *this;
}

Statement& Statement::bind(double value) {
  sqlite3_bind_double(statement_, next_++, value);
  return *this;
}

Result<bool> Statement::step() {
  const int status = sqlite3_step(statement_);
  if (status == SQLITE_ROW) return true;
  if (status == SQLITE_DONE) return false;
  const char* file = sqlite3_db_filename(db_, "main");
  return database_error(db_, file != nullptr ? file : "", status);
}

Status Statement::run() {
  while (true) {
    OPFORGE_ASSIGN(const bool row, step());
    if (!row) return {};
  }
}

std::string Statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return bytes == nullptr
             ? std::string()
             : std::string(bytes,
                           static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}

double Statement::number(int column) const {
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL)
    return std::numeric_limits<double>::quiet_NaN();
  return sqlite3_column_double(statement_, column);
}

Result<Database> Database::open(const Path& file, bool read_only) {
  sqlite3* handle = nullptr;
  const int flags =
      (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
      SQLITE_OPEN_FULLMUTEX;
  const int status =
      sqlite3_open_v2(file.empty() ? ":memory:" : file.c_str(), &handle, flags, nullptr);
  Database db(handle, file);
  if (status != SQLITE_OK) return database_error(handle, file, status);
  sqlite3_busy_timeout(handle, kBusy_ms);
  OPFORGE_TRY(db.execute("PRAGMA foreign_keys = ON"));
  // Reads the file's heading, so that a file that is no database is found here and not at the first
  // use.
  OPFORGE_TRY(db.execute("SELECT count(*) FROM sqlite_master"));
  if (!read_only && !file.empty())
    OPFORGE_TRY(db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"));
  return db;
}

Database::Database(Database&& other) noexcept
    : db_(std::exchange(other.db_, nullptr)), file_(std::move(other.file_)) {}

Database& Database::operator=(Database&& other) noexcept {
  std::swap(db_, other.db_);
  std::swap(file_, other.file_);
  return *this;
}

Database::~Database() { sqlite3_close_v2(db_); }

Result<Statement> Database::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  const int status =
      sqlite3_prepare_v2(db_, sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  if (status != SQLITE_OK) return database_error(db_, file_, status);
  return Statement(db_, statement);
}

Status Database::execute(const char* sql) const {
  const int status = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (status != SQLITE_OK) return database_error(db_, file_, status);
  return {};
}

Status Database::migrate(int to) const {
  OPFORGE_ASSIGN(Transaction transaction, Transaction::begin(*this));
  OPFORGE_ASSIGN(Statement version, prepare("PRAGMA user_version"));
  OPFORGE_TRY(version.step());
  const auto found = static_cast<int>(version.integer(0));
  if (found > kRecordsSchema) {
    return fail(Code::kIncompatible,
                fmt::format("tuning records '{}' have schema {}, this opforge knows up to {}: they "
                            "were written by a newer one",
                            file_.string(), found, kRecordsSchema),
                "tune/records");
  }
  for (int step = found; step < to; ++step) OPFORGE_TRY(execute(kMigrations[step]));
  if (found < to) OPFORGE_TRY(execute(fmt::format("PRAGMA user_version = {}", to).c_str()));
  return transaction.commit();
}

Status Database::copy_into(Database& other) const {
  sqlite3_backup* backup = sqlite3_backup_init(other.db_, "main", db_, "main");
  if (backup == nullptr) return database_error(other.db_, file_, sqlite3_errcode(other.db_));
  sqlite3_backup_step(backup, -1);
  const int status = sqlite3_backup_finish(backup);
  if (status != SQLITE_OK) return database_error(nullptr, file_, status);
  return {};
}

std::int64_t Database::changes() const { return sqlite3_changes64(db_); }

Result<Transaction> Transaction::begin(const Database& db) {
  OPFORGE_TRY(db.execute("BEGIN IMMEDIATE"));
  return Transaction(&db);
}

Transaction::Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}

Transaction::~Transaction() {
  if (db_ != nullptr) (void)db_->execute("ROLLBACK");
}

Status Transaction::commit() {
  const Database* db = std::exchange(db_, nullptr);
  auto status = db->execute("COMMIT");
  if (!status) (void)db->execute("ROLLBACK");
  return status;
}

}  // namespace opforge
