// Internal to tune: the state of one tune between its phases.
#pragma once

#include <chrono>
#include <map>

#include "tune/tuner.hpp"

namespace opforge {

class TuneSession {
 public:
  TuneSession(TuneRequest& request, TuneReport& report, Evaluator& evaluator);

  // Errors only when nothing can be judged at all. Everything else goes into the report.
  Status run();

 private:
  // A candidate that is right and was timed.
  struct Measured {
    std::size_t trial;              // index in report_.trials
    std::optional<BuiltCode> code;  // absent: known from records, obtained when needed
  };
  struct Built {
    std::size_t index;  // in the space
    std::size_t rounds;
    TrialRecord trial;
    std::optional<BuiltCode> code;
  };

  // tune_session.cc
  bool start_baseline();
  void take_known_trials();
  void search();
  std::optional<std::string> exhausted();
  void finish_trial(TrialRecord trial, std::size_t index, std::size_t rounds, BuiltCode* code);
  void show(TuneProgress::Phase phase, const TrialRecord* trial = nullptr);
  bool cancelled();
  double elapsed_s() const;

  // tune_screen.cc: one batch
  std::vector<Built> compile(const std::vector<Proposal>& proposals);
  void check(std::vector<Built>& batch);
  void screen(std::vector<Built>& batch);
  void screen_group(std::span<Built*> group);
  void take_reading(Built& built, const Comparison& comparison, std::size_t reading);
  CheckAnswer check_code(const BuiltCode& code, TrialRecord& trial);
  std::uint64_t fresh_salt();

  // tune_final.cc
  void finish();
  std::vector<std::size_t> pick_finalists();
  std::optional<Comparison> compare(std::span<const BuiltCode> codes, std::size_t rounds,
                                    double time_limit_s, std::size_t block);
  bool confirm(const BuiltCode& winner, Comparison& last);
  void settle(const TrialRecord& trial, const BuiltCode& code, const Comparison* last,
              std::size_t reading);
  void settle_without_baseline();
  struct Final {  // in the order of the comparison; the first is the baseline
    std::vector<BuiltCode> codes;
    std::vector<Contender> contenders;
    std::vector<std::size_t> trials;  // in report_.trials
  };
  Final gather_final();
  void keep_baseline(std::string why);
  void finish_without_candidates();

  TuneRequest& request_;
  TuneReport& report_;
  Evaluator& evaluator_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::optional<BuiltCode> baseline_;            // absent: it cannot be used here
  std::vector<Tried> history_;                   // what the searcher sees
  std::map<std::size_t, std::size_t> trial_of_;  // index in the space -> index in report_.trials
  std::vector<Measured> measured_;
  std::map<Digest, TrialRecord> known_;  // from records
  std::size_t baseline_index_ = 0;       // in the space; its size when absent there
};

inline std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace opforge
