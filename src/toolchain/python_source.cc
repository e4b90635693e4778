#include "toolchain/python_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "toolchain/python_source";

bool word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

// Logical lines without comments and without the contents of strings: an import written in a
// docstring is none. Lines continue within brackets and after a backslash; ';' ends one.
std::vector<std::string> logical_lines(std::string_view text) {
  std::vector<std::string> lines(1);
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '"' || c == '\'') {
      const std::string quote =
          text.substr(i, 3) == std::string(3, c) ? std::string(3, c) : std::string(1, c);
      i += quote.size();
      while (i < text.size() && text.substr(i, quote.size()) != quote) {
        if (text[i] == '\n' && quote.size() == 1) break;  // not closed: Python will say so
        i += text[i] == '\\' ? 2 : 1;
      }
      i += quote.size() - 1;
      lines.back() += "''";
    } else if (c == '\\' && i + 1 < text.size() && text[i + 1] == '\n') {
      ++i;
      lines.back() += ' ';
    } else if ((c == '\n' && depth == 0) || (c == ';' && depth == 0)) {
      lines.emplace_back();
    } else {
      if (c == '(' || c == '[' || c == '{') ++depth;
      if ((c == ')' || c == ']' || c == '}') && depth > 0) --depth;
      lines.back() += c == '\n' || c == '(' || c == ')' ? ' ' : c;
    }
  }
  return lines;
}

std::string_view take_word(std::string_view& text) {
  text = trim(text);
  std::size_t end = 0;
  while (end < text.size() && word_char(text[end])) ++end;
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

// "a.b as c, d" -> {"a.b", "d"}.
std::vector<std::string> listed_names(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string& part : split(text, ',')) {
    std::string_view rest = part;
    if (const std::string_view name = take_word(rest); !name.empty()) names.emplace_back(name);
  }
  return names;
}

class Collector {
 public:
  explicit Collector(std::span<const Path> roots) : roots_(roots) {}
  void mark_source(const std::string& name) { is_source_[name] = true; }

  Status take(const std::string& name, std::size_t root) {
    if (const auto known = root_of_.find(name); known != root_of_.end()) return {};
    for (std::size_t other = 0; other < roots_.size(); ++other) {
      std::error_code error;
      if (other == root || !std::filesystem::is_regular_file(roots_[other] / name, error)) continue;
      return fail(Code::kInvalidDeclaration,
                  fmt::format("'{}' is in {} and in {}: one name must mean one file; rename the "
                              "operator's",
                              name, roots_[root].string(), roots_[other].string()),
                  kWhere);
    }
    OPFORGE_ASSIGN(std::string bytes, read_file(roots_[root] / name));
    try {
      (void)nlohmann::json(bytes).dump();  // questions to workers are JSON
    } catch (const nlohmann::json::exception&) {
      return fail(Code::kInvalidDeclaration, fmt::format("{} is no UTF-8 text", name), kWhere);
    }
    root_of_[name] = root;
    OPFORGE_TRY(imports_of(name, bytes));
    set_.files.emplace_back(name, std::move(bytes));
    return {};
  }

  SourceSet finish() {
    std::sort(set_.files.begin(), set_.files.end());
    return std::move(set_);
  }

 private:
  Status imports_of(const std::string& file, std::string_view text) {
    for (const std::string& line : logical_lines(text)) {
      for (const char* call : {"importlib", "__import__", "runpy"}) {
        if (line.find(call) == std::string::npos) continue;
        return fail(Code::kInvalidDeclaration,
                    fmt::format("{} uses {}: what it loads cannot be known beforehand, so that the "
                                "code key would not cover it; write import statements",
                                file, call),
                    kWhere);
      }
      // "if x: import y" and "else: import y" are imports too.
      std::string_view rest = line;
      for (std::size_t at = rest.find(':'); at != std::string_view::npos; at = rest.find(':')) {
        if (const std::string_view after = trim(rest.substr(at + 1));
            after.starts_with("import ") || after.starts_with("from ")) {
          rest = after;
          break;
        }
        rest = rest.substr(at + 1);
      }
      if (!trim(rest).starts_with("import ") && !trim(rest).starts_with("from ")) rest = line;
      OPFORGE_TRY(statement(file, rest));
    }
    return {};
  }

  Status statement(const std::string& file, std::string_view text) {
    const std::string_view word = take_word(text);
    if (word == "import") {
      for (const std::string& name : listed_names(text)) OPFORGE_TRY(module(name));
    } else if (word == "from") {
      const std::string from(take_word(text));
      if (from.starts_with('.') || from.empty()) {
        return fail(Code::kInvalidDeclaration,
                    fmt::format("{} has a relative import: kernels are no package; write the "
                                "module's name",
                                file),
                    kWhere);
      }
      OPFORGE_TRY(module(from));
      if (take_word(text) == "import") {
        // A name may be a module of a package.
        for (const std::string& name : listed_names(text))
          OPFORGE_TRY(module(from + "." + name, true));
      }
    }
    return {};
  }

  // All parts of "a.b.c" that are files: a/__init__.py, a/b.py, ...
  Status module(const std::string& name, bool may_be_value = false) {
    std::string path;
    bool found = false;
    for (const std::string& part : split(name, '.')) {
      path += (path.empty() ? "" : "/") + part;
      for (const std::string& file : {path + ".py", path + "/__init__.py"}) {
        for (std::size_t i = 0; i < roots_.size(); ++i) {
          std::error_code error;
          if (!std::filesystem::is_regular_file(roots_[i] / file, error)) continue;
          // The kernel's own file may be called like its DSL: "import triton" in triton.py is the
          // environment's.
          if (i == 0 && is_source_[file]) continue;
          found = true;
          OPFORGE_TRY(take(file, i));
          break;
        }
      }
    }
    if (!found && !may_be_value) set_.system_includes.insert(split(name, '.').front());
    return {};
  }

  std::span<const Path> roots_;
  std::map<std::string, std::size_t> root_of_;
  std::map<std::string, bool> is_source_;
  SourceSet set_;
};

}  // namespace

Result<SourceSet> python_source_set(std::span<const std::string> sources,
                                    std::span<const Path> roots) {
  Collector collector(roots);
  for (const std::string& source : sources)
    collector.mark_source(Path(source).lexically_normal().generic_string());
  for (const std::string& source : sources) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(roots[0] / source, error)) {
      return fail(Code::kNotFound,
                  fmt::format("source file '{}' is not in {}", source, roots[0].string()), kWhere);
    }
    OPFORGE_TRY(collector.take(Path(source).lexically_normal().generic_string(), 0));
  }
  return collector.finish();
}

}  // namespace opforge
