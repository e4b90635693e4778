#include "tune/records.hpp"

#include <fmt/core.h>

#include <mutex>
#include <utility>

#include "tune/database.hpp"
#include "tune/record_json.hpp"

namespace opforge {

struct Records::State {
  Path file;
  mutable std::mutex mutex;  // a statement's steps and the connection's last error belong together
  Database db;
  State(Path path, Database database) : file(std::move(path)), db(std::move(database)) {}
};

namespace {

constexpr std::string_view kFormat = "opforge-tune-records";
constexpr std::string_view kContextColumns =
    "c.op, c.dims, c.layout, c.dtypes, c.attributes, c.contract, c.target, c.device_model, "
    "c.driver";
constexpr std::string_view kMatches =
    "(?1 = '' OR c.op = ?1) AND (?2 = '' OR c.target = ?2) AND (?3 = '' OR c.device_model = ?3)";

void bind_filter(Statement& statement, const RecordFilter& filter) {
  statement.bind(filter.op).bind(filter.target).bind(filter.device_model);
}

// Columns from `first` on, as kContextColumns.
Result<TuneContext> read_context(const Statement& row, int first) {
  return guarded_read<TuneContext>("a stored context", [&] {
    const Json json = {{"op", row.text(first)},
                       {"dims", Json::parse(row.text(first + 1))},
                       {"layout", row.text(first + 2)},
                       {"dtypes", Json::parse(row.text(first + 3))},
                       {"attributes", Json::parse(row.text(first + 4))},
                       {"contract", row.text(first + 5)},
                       {"target", row.text(first + 6)},
                       {"device_model", row.text(first + 7)},
                       {"driver", row.integer(first + 8)}};
    return context_from(json);
  });
}

Result<TrialRecord> read_trial(std::string_view text) {
  OPFORGE_ASSIGN(const Json json, parse_json(text, "a stored trial"));
  return guarded_read<TrialRecord>("a stored trial", [&] { return trial_from(json); });
}

Result<ChoiceRecord> read_choice(std::string_view text, TuneContext context) {
  OPFORGE_ASSIGN(const Json json, parse_json(text, "a stored choice"));
  return guarded_read<ChoiceRecord>("a stored choice",
                                    [&] { return choice_from(json, std::move(context)); });
}

Result<std::int64_t> context_id(const Database& db, const TuneContext& context) {
  const std::string digest = context.digest().hex();
  OPFORGE_ASSIGN(
      Statement insert,
      db.prepare(
          "INSERT OR IGNORE INTO contexts(digest, op, dims, layout, dtypes, attributes, contract,"
          " target, device_model, driver) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insert.bind(digest).bind(context.op).bind(dump_json(to_json(context.dims))).bind(context.layout);
  insert.bind(dump_json(to_json(context.dtypes))).bind(dump_json(to_json(context.attributes)));
  insert.bind(tier_name(context.contract)).bind(context.target).bind(context.device_model);
  insert.bind(static_cast<std::int64_t>(context.driver_version));
  OPFORGE_TRY(insert.run());
  OPFORGE_ASSIGN(Statement find, db.prepare("SELECT id FROM contexts WHERE digest = ?"));
  OPFORGE_ASSIGN(const bool found, find.bind(digest).step());
  if (!found)
    return fail(Code::kInternal, "a context that was just stored is not there", "tune/records");
  return find.integer(0);
}

// What makes a trial the same one wherever it is imported: all of it.
std::string trial_uid(const TuneContext& context, std::string_view record) {
  return Fingerprint().add("context", context.digest()).add("record", record).finish().hex();
}

// Inside a transaction. True when it was new.
Result<bool> insert_trial(const Database& db, const TuneContext& context,
                          const TrialRecord& trial) {
  OPFORGE_ASSIGN(const std::int64_t id, context_id(db, context));
  const std::string record = dump_json(to_json(trial));
  OPFORGE_ASSIGN(
      Statement insert,
      db.prepare(
          "INSERT OR IGNORE INTO trials(uid, context, code_key, outcome, finished_at, record)"
          " VALUES(?, ?, ?, ?, ?, ?)"));
  insert.bind(trial_uid(context, record))
      .bind(id)
      .bind(trial.code_key.hex())
      .bind(trial_outcome_name(trial.outcome));
  insert.bind(trial.finished_at).bind(record);
  OPFORGE_TRY(insert.run());
  return db.changes() > 0;
}

// `replace`: whatever is there. Otherwise only a later one replaces an earlier one, ties by code
// key, so that the order of merges does not matter.
Result<bool> insert_choice(const Database& db, const ChoiceRecord& choice, bool replace) {
  OPFORGE_ASSIGN(const std::int64_t id, context_id(db, choice.context));
  const std::string sql =
      std::string(
          "INSERT INTO choices(context, code_key, finished_at, record) VALUES(?, ?, ?, ?)"
          " ON CONFLICT(context) DO UPDATE SET code_key = excluded.code_key, finished_at = "
          "excluded.finished_at,"
          " record = excluded.record") +
      (replace ? "" : " WHERE (excluded.finished_at, excluded.code_key) > (finished_at, code_key)");
  OPFORGE_ASSIGN(Statement insert, db.prepare(sql));
  insert.bind(id)
      .bind(choice.code_key.hex())
      .bind(choice.finished_at)
      .bind(dump_json(to_json(choice)));
  OPFORGE_TRY(insert.run());
  return db.changes() > 0;
}

Result<std::size_t> import_line(const Database& db, std::string_view line) {
  OPFORGE_ASSIGN(const Json json, parse_json(line, "the record"));
  OPFORGE_ASSIGN(const TuneContext context, guarded_read<TuneContext>("its context", [&] {
                   return context_from(json.at("context"));
                 }));
  if (json.contains("trial")) {
    OPFORGE_ASSIGN(const TrialRecord trial, guarded_read<TrialRecord>("its trial", [&] {
                     return trial_from(json.at("trial"));
                   }));
    return insert_trial(db, context, trial).map([](bool added) -> std::size_t {
      return added ? 1 : 0;
    });
  }
  OPFORGE_ASSIGN(const ChoiceRecord choice, guarded_read<ChoiceRecord>("its choice", [&] {
                   return choice_from(json.at("choice"), context);
                 }));
  return insert_choice(db, choice, false).map([](bool added) -> std::size_t {
    return added ? 1 : 0;
  });
}

Status check_heading(std::string_view line) {
  const auto json = parse_json(line, "the first line");
  if (!json || json->value("format", "") != kFormat) {
    return fail(
        Code::kCorrupt,
        fmt::format("not an export of tuning records: the first line must say \"format\": \"{}\"",
                    kFormat),
        "tune/records");
  }
  if (json->value("version", 0) != 1) {
    return fail(Code::kIncompatible,
                fmt::format("an export of version {}, this opforge reads version 1",
                            json->value("version", 0)),
                "tune/records");
  }
  return {};
}

}  // namespace

Records::Records(std::unique_ptr<State> state) : state_(std::move(state)) {}
Records::Records(Records&&) noexcept = default;
Records& Records::operator=(Records&&) noexcept = default;
Records::~Records() = default;
const Path& Records::file() const { return state_->file; }

Result<Records> Records::open(const Path& file) {
  if (!file.empty() && file.has_parent_path()) OPFORGE_TRY(make_dirs(file.parent_path()));
  OPFORGE_ASSIGN(Database db, Database::open(file, false));
  OPFORGE_TRY(db.migrate());
  return Records(std::make_unique<State>(file, std::move(db)));
}

Result<Records> Records::open_in(const Path& state_folder) {
  return open(state_folder.empty() ? Path() : state_folder / "tune.db");
}

Status Records::add(const TuneContext& context, const TrialRecord& trial) {
  const std::lock_guard lock(state_->mutex);
  OPFORGE_ASSIGN(Transaction transaction, Transaction::begin(state_->db));
  OPFORGE_TRY(insert_trial(state_->db, context, trial));
  return transaction.commit();
}

Result<std::vector<TrialRecord>> Records::trials(const TuneContext& context) const {
  const std::lock_guard lock(state_->mutex);
  OPFORGE_ASSIGN(
      Statement select,
      state_->db.prepare(
          "SELECT t.record FROM trials t JOIN contexts c ON c.id = t.context WHERE c.digest = ?"
          " AND t.id = (SELECT max(id) FROM trials WHERE context = t.context AND code_key = "
          "t.code_key)"
          " ORDER BY t.id"));
  select.bind(context.digest().hex());
  std::vector<TrialRecord> trials;
  while (true) {
    OPFORGE_ASSIGN(const bool row, select.step());
    if (!row) return trials;
    OPFORGE_ASSIGN(TrialRecord trial, read_trial(select.text(0)));
    trials.push_back(std::move(trial));
  }
}

Status Records::choose(const ChoiceRecord& choice) {
  const std::lock_guard lock(state_->mutex);
  OPFORGE_ASSIGN(Transaction transaction, Transaction::begin(state_->db));
  OPFORGE_TRY(insert_choice(state_->db, choice, true));
  return transaction.commit();
}

Result<std::optional<ChoiceRecord>> Records::choice(const TuneContext& context) const {
  const std::lock_guard lock(state_->mutex);
  OPFORGE_ASSIGN(
      Statement select,
      state_->db.prepare(
          "SELECT h.record FROM choices h JOIN contexts c ON c.id = h.context WHERE c.digest = ?"));
  OPFORGE_ASSIGN(const bool row, select.bind(context.digest().hex()).step());
  if (!row) return std::optional<ChoiceRecord>();
  OPFORGE_ASSIGN(ChoiceRecord choice, read_choice(select.text(0), context));
  return std::optional<ChoiceRecord>(std::move(choice));
}

Result<std::vector<ChoiceRecord>> Records::choices(const RecordFilter& filter) const {
  const std::lock_guard lock(state_->mutex);
  OPFORGE_ASSIGN(
      Statement select,
      state_->db.prepare(fmt::format(
          "SELECT h.record, {} FROM choices h JOIN contexts c ON c.id = h.context WHERE {}"
          " ORDER BY c.op, c.dims, c.dtypes, c.device_model, c.digest",
          kContextColumns, kMatches)));
  bind_filter(select, filter);
  std::vector<ChoiceRecord> choices;
  while (true) {
    OPFORGE_ASSIGN(const bool row, select.step());
    if (!row) return choices;
    OPFORGE_ASSIGN(TuneContext context, read_context(select, 1));
    OPFORGE_ASSIGN(ChoiceRecord choice, read_choice(select.text(0), std::move(context)));
    choices.push_back(std::move(choice));
  }
}

Result<std::vector<Records::Listed>> Records::list(const RecordFilter& filter) const {
  const std::lock_guard lock(state_->mutex);
  OPFORGE_ASSIGN(
      Statement select,
      state_->db.prepare(fmt::format(
          "SELECT {}, (SELECT count(*) FROM trials WHERE context = c.id),"
          " (SELECT count(*) FROM trials WHERE context = c.id AND outcome <> 'measured'),"
          " (SELECT count(*) FROM choices WHERE context = c.id),"
          " max(coalesce((SELECT max(finished_at) FROM trials WHERE context = c.id), 0),"
          "     coalesce((SELECT finished_at FROM choices WHERE context = c.id), 0))"
          " FROM contexts c WHERE {} ORDER BY c.op, c.dims, c.dtypes, c.device_model, c.digest",
          kContextColumns, kMatches)));
  bind_filter(select, filter);
  std::vector<Listed> all;
  while (true) {
    OPFORGE_ASSIGN(const bool row, select.step());
    if (!row) return all;
    Listed listed;
    OPFORGE_ASSIGN(listed.context, read_context(select, 0));
    listed.trials = select.integer(9);
    listed.failures = select.integer(10);
    listed.chosen = select.integer(11) > 0;
    listed.last_at = select.integer(12);
    all.push_back(std::move(listed));
  }
}

Result<std::size_t> Records::clear(const RecordFilter& filter) {
  const std::lock_guard lock(state_->mutex);
  OPFORGE_ASSIGN(Statement remove,
                 state_->db.prepare(fmt::format("DELETE FROM contexts AS c WHERE {}", kMatches)));
  bind_filter(remove, filter);
  OPFORGE_TRY(remove.run());
  return static_cast<std::size_t>(state_->db.changes());
}

Result<std::string> Records::export_json(const RecordFilter& filter) const {
  const std::lock_guard lock(state_->mutex);
  std::string text = dump_json({{"format", kFormat}, {"version", 1}}) + "\n";
  for (const char* kind : {"trial", "choice"}) {
    OPFORGE_ASSIGN(Statement select,
                   state_->db.prepare(fmt::format(
                       "SELECT r.record, {} FROM {}s r JOIN contexts c ON c.id = r.context WHERE {}"
                       " ORDER BY c.digest, r.rowid",
                       kContextColumns, kind, kMatches)));
    bind_filter(select, filter);
    while (true) {
      OPFORGE_ASSIGN(const bool row, select.step());
      if (!row) break;
      OPFORGE_ASSIGN(const TuneContext context, read_context(select, 1));
      OPFORGE_ASSIGN(Json record, parse_json(select.text(0), "a stored record"));
      text += dump_json({{"context", to_json(context)}, {kind, std::move(record)}}) + "\n";
    }
  }
  return text;
}

Result<std::size_t> Records::import_json(std::string_view text) {
  const std::lock_guard lock(state_->mutex);
  OPFORGE_ASSIGN(Transaction transaction, Transaction::begin(state_->db));
  std::size_t added = 0, number = 0;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (++number == 1) {
      OPFORGE_TRY(check_heading(line));
      continue;
    }
    if (line.empty()) continue;
    auto imported = import_line(state_->db, line);
    if (!imported) {
      Error error = imported.error();
      error.message = fmt::format("line {}: {}; nothing was imported", number, error.message);
      return fail(std::move(error));
    }
    added += *imported;
  }
  if (number == 0)
    return fail(Code::kCorrupt, "an empty file is no export of tuning records", "tune/records");
  OPFORGE_TRY(transaction.commit());
  return added;
}

Result<std::size_t> Records::merge(const Path& other) {
  OPFORGE_ASSIGN(const Database source, Database::open(other, true));
  // A copy in memory can be brought to the current schema without changing the other file.
  OPFORGE_ASSIGN(Database copy, Database::open({}, false));
  OPFORGE_TRY(source.copy_into(copy));
  OPFORGE_TRY(copy.migrate());
  const Records read(std::make_unique<State>(other, std::move(copy)));
  OPFORGE_ASSIGN(const std::string text, read.export_json());
  return import_json(text);
}

}  // namespace opforge
