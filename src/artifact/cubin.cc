#include "artifact/cubin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>

#include "base/text.hpp"

namespace opforge {
namespace {

constexpr const char* kWhere = "artifact/cubin";

tl::unexpected<Error> corrupt(std::string_view what) {
  return fail(Code::kCorrupt, fmt::format("not a valid cubin: {}", what), kWhere);
}

// Little-endian fields of a byte range; reading past its end gives 0 and is remembered.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T at(std::uint64_t offset) {
    T value{};
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) {
      short_ = true;
      return value;
    }
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  bool is_short() const { return short_; }
  std::size_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  bool short_ = false;
};

constexpr std::uint16_t kMachineCuda = 190;
constexpr std::uint32_t kSectionSymbols = 2, kSectionNoBits = 8;
// Attribute numbers of .nv.info and .nv.info.<kernel>, format 4 (16-bit size, then that many
// bytes).
constexpr std::uint8_t kFormatSized = 4;
constexpr std::uint8_t kRequiredBlock = 0x10, kFrameSize = 0x11, kKernelParam = 0x17,
                       kRegisterCount = 0x2f, kTileParam = 0x45;
// From sm_90 on, the system keeps this much of each block's shared memory, and counts it in
// .nv.shared.<kernel>.
constexpr std::int64_t kReservedShared = 1024;

struct Section {
  std::string name;
  std::uint32_t type = 0;
  std::uint64_t size = 0;
  std::string_view data;  // empty for sections without bytes
};

Result<std::vector<Section>> read_sections(std::string_view bytes) {
  Bytes elf(bytes);
  const auto table = elf.at<std::uint64_t>(0x28);
  const auto entry_size = elf.at<std::uint16_t>(0x3a);
  const auto count = elf.at<std::uint16_t>(0x3c);
  const auto names_index = elf.at<std::uint16_t>(0x3e);
  if (elf.is_short() || entry_size != 64 || names_index >= count)
    return corrupt("bad section table");
  if (table > bytes.size() || (bytes.size() - table) / 64 < count)
    return corrupt("the section table is cut off");
  std::vector<Section> sections(count);
  std::vector<std::uint32_t> name_offsets(count);
  for (std::uint16_t i = 0; i < count; ++i) {
    const std::uint64_t header = table + 64ULL * i;
    name_offsets[i] = elf.at<std::uint32_t>(header);
    sections[i].type = elf.at<std::uint32_t>(header + 4);
    const auto offset = elf.at<std::uint64_t>(header + 24);
    sections[i].size = elf.at<std::uint64_t>(header + 32);
    if (sections[i].type == kSectionNoBits) continue;
    if (offset > bytes.size() || bytes.size() - offset < sections[i].size)
      return corrupt("a section is cut off");
    sections[i].data = bytes.substr(offset, sections[i].size);
  }
  const std::string_view names = sections[names_index].data;
  for (std::uint16_t i = 0; i < count; ++i) {
    const std::size_t end = names.find('\0', std::min<std::size_t>(name_offsets[i], names.size()));
    if (name_offsets[i] >= names.size() || end == std::string_view::npos)
      return corrupt("a section has no name");
    sections[i].name = names.substr(name_offsets[i], end - name_offsets[i]);
  }
  return sections;
}

// Calls visit(attribute, payload) for each sized attribute; other formats are four bytes in all.
template <class Visit>
Status for_each_attribute(std::string_view info, Visit visit) {
  Bytes bytes(info);
  for (std::size_t at = 0; at + 4 <= info.size();) {
    const auto format = bytes.at<std::uint8_t>(at);
    const auto attribute = bytes.at<std::uint8_t>(at + 1);
    const auto size = bytes.at<std::uint16_t>(at + 2);
    at += 4;
    if (format != kFormatSized) continue;
    if (info.size() - at < size) return corrupt("an attribute is cut off");
    visit(attribute, info.substr(at, size));
    at += size;
  }
  return {};
}

// Facts of kernels that are kept by symbol index in .nv.info.
struct BySymbol {
  std::map<std::uint32_t, std::uint32_t> registers, frames;
};

Result<std::map<std::string, std::uint32_t, std::less<>>> read_symbols(
    const std::vector<Section>& sections) {
  std::map<std::string, std::uint32_t, std::less<>> symbols;
  std::string_view names;
  for (const Section& section : sections) {
    if (section.name == ".strtab") names = section.data;
  }
  for (const Section& section : sections) {
    if (section.type != kSectionSymbols) continue;
    Bytes table(section.data);
    for (std::uint32_t i = 0; 24ULL * i + 24 <= section.data.size(); ++i) {
      const auto offset = table.at<std::uint32_t>(24ULL * i);
      if (offset >= names.size()) return corrupt("a symbol has no name");
      const std::size_t end = names.find('\0', offset);
      if (end == std::string_view::npos) return corrupt("a symbol has no name");
      symbols.emplace(names.substr(offset, end - offset), i);
    }
  }
  return symbols;
}

Status read_kernel_info(std::string_view info, CubinKernel& kernel) {
  std::map<std::uint16_t, CubinParam> params;
  OPFORGE_TRY(for_each_attribute(info, [&](std::uint8_t attribute, std::string_view payload) {
    Bytes bytes(payload);
    if (attribute == kKernelParam && payload.size() >= 12) {
      // {index, ordinal:16, offset:16, flags:18 | size:14}
      params[bytes.at<std::uint16_t>(4)] = {bytes.at<std::uint16_t>(6),
                                            bytes.at<std::uint32_t>(8) >> 18};
    } else if (attribute == kTileParam && payload.size() >= 12) {
      // Of kernels that the tile assembler makes: {index, ordinal:16, offset:16, size:16, flags:16}
      params[bytes.at<std::uint16_t>(4)] = {bytes.at<std::uint16_t>(6), bytes.at<std::uint16_t>(8)};
    } else if (attribute == kRequiredBlock && payload.size() >= 12) {
      for (std::size_t i = 0; i < 3; ++i) kernel.required_block[i] = bytes.at<std::uint32_t>(4 * i);
    }
  }));
  std::uint16_t expected = 0;
  for (const auto& [ordinal, param] : params) {
    if (ordinal != expected++)
      return corrupt(fmt::format("{} lacks parameter {}", kernel.symbol, expected - 1));
    kernel.params.push_back(param);
  }
  return {};
}

}  // namespace

const CubinKernel* Cubin::find(std::string_view symbol) const {
  for (const CubinKernel& kernel : kernels) {
    if (kernel.symbol == symbol) return &kernel;
  }
  return nullptr;
}

Result<Cubin> read_cubin(std::string_view bytes) {
  Bytes elf(bytes);
  if (bytes.size() < 64 ||
      bytes.substr(0, 4) !=
          "\x7f"
          "ELF" ||
      bytes[4] != 2)
    return corrupt("no 64-bit ELF header");
  if (elf.at<std::uint16_t>(18) != kMachineCuda) {
    return corrupt(
        fmt::format("an ELF file for machine {}, not for a GPU", elf.at<std::uint16_t>(18)));
  }
  const auto flags = elf.at<std::uint32_t>(0x30);
  Cubin cubin;
  // ABI 7 (toolkit 12) keeps the architecture in the lowest byte, ABI 8 (toolkit 13) in the next.
  cubin.abi = static_cast<std::uint8_t>(bytes[8]);
  cubin.arch = static_cast<int>(cubin.abi >= 8 ? flags >> 8 & 0xff : flags & 0xff);
  OPFORGE_ASSIGN(const auto sections, read_sections(bytes));
  OPFORGE_ASSIGN(const auto symbols, read_symbols(sections));
  BySymbol facts;
  std::map<std::string, const Section*, std::less<>> by_name;
  for (const Section& section : sections) {
    by_name.emplace(section.name, &section);
    if (section.name != ".nv.info") continue;
    OPFORGE_TRY(
        for_each_attribute(section.data, [&](std::uint8_t attribute, std::string_view payload) {
          Bytes fields(payload);
          if (payload.size() < 8) return;
          if (attribute == kRegisterCount)
            facts.registers[fields.at<std::uint32_t>(0)] = fields.at<std::uint32_t>(4);
          if (attribute == kFrameSize)
            facts.frames[fields.at<std::uint32_t>(0)] = fields.at<std::uint32_t>(4);
        }));
  }
  const bool reserves = by_name.contains(".nv.shared.reserved.0");
  constexpr std::string_view kText = ".text.", kInfo = ".nv.info.", kShared = ".nv.shared.";
  for (const Section& section : sections) {
    if (!section.name.starts_with(kInfo)) continue;
    CubinKernel kernel;
    kernel.symbol = section.name.substr(kInfo.size());
    const auto text = by_name.find(std::string(kText) + kernel.symbol);
    if (text == by_name.end()) return corrupt(fmt::format("{} has no code", kernel.symbol));
    kernel.code_bytes = static_cast<std::int64_t>(text->second->size);
    OPFORGE_TRY(read_kernel_info(section.data, kernel));
    if (const auto shared = by_name.find(std::string(kShared) + kernel.symbol);
        shared != by_name.end()) {
      const auto size = static_cast<std::int64_t>(shared->second->size);
      kernel.shared_bytes = reserves && size >= kReservedShared ? size - kReservedShared : size;
    }
    if (const auto symbol = symbols.find(kernel.symbol); symbol != symbols.end()) {
      if (facts.registers.contains(symbol->second))
        kernel.registers = facts.registers[symbol->second];
      if (facts.frames.contains(symbol->second)) kernel.local_bytes = facts.frames[symbol->second];
    }
    cubin.kernels.push_back(std::move(kernel));
  }
  std::sort(cubin.kernels.begin(), cubin.kernels.end(),
            [](const CubinKernel& a, const CubinKernel& b) { return a.symbol < b.symbol; });
  return cubin;
}

namespace {

bool is_identifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

std::string_view next_word(std::string_view text, std::size_t from) {
  while (from < text.size() && std::isspace(static_cast<unsigned char>(text[from])) != 0) ++from;
  std::size_t end = from;
  while (end < text.size() && is_identifier(text[end])) ++end;
  return text.substr(from, end - from);
}

}  // namespace

Result<Ptx> read_ptx(std::string_view text) {
  Ptx ptx;
  if (text.find(".version") == std::string_view::npos) {
    return fail(Code::kCorrupt, "not PTX: it has no .version line", kWhere);
  }
  if (const std::size_t at = text.find(".target"); at != std::string_view::npos) {
    const std::string_view name = next_word(text, at + 7);
    if (name.starts_with("sm_")) {
      for (const char c : name.substr(3)) {
        if (c < '0' || c > '9' || ptx.arch > 9999) break;
        ptx.arch = ptx.arch * 10 + (c - '0');
      }
    }
  }
  for (std::size_t at = text.find(".entry"); at != std::string_view::npos;
       at = text.find(".entry", at + 6)) {
    const std::string_view name = next_word(text, at + 6);
    if (!name.empty()) ptx.entries.emplace_back(name);
  }
  std::sort(ptx.entries.begin(), ptx.entries.end());
  return ptx;
}

namespace {

// Whether an instruction like "atom.global.add.noftz.f16x2" changes memory in an order that can
// reach float bits.
bool is_float_atomic(std::string_view opcode) {
  if (!opcode.starts_with("atom.") && !opcode.starts_with("red.") &&
      !opcode.starts_with("multimem.red") && !opcode.starts_with("cp.reduce.")) {
    return false;
  }
  bool adds = false, floats = false, swaps = false;
  for (const std::string& part : split(opcode, '.')) {
    adds |= part == "add";
    swaps |= part == "cas";
    floats |= part.starts_with("f16") || part.starts_with("bf16") || part == "f32" ||
              part == "f64" || part.starts_with("e4m3") || part.starts_with("e5m2");
  }
  return swaps || (adds && floats);
}

}  // namespace

Status check_no_float_atomics(std::string_view ptx) {
  std::string entry = "the code";
  for (std::size_t at = 0; at < ptx.size();) {
    std::size_t end = ptx.find('\n', at);
    if (end == std::string_view::npos) end = ptx.size();
    std::string_view line = ptx.substr(at, end - at);
    at = end + 1;
    line = trim(line.substr(0, std::min(line.find("//"), line.size())));
    if (const std::size_t name = line.find(".entry"); name != std::string_view::npos) {
      entry = next_word(line, name + 6);
    }
    // Several statements may share a line: inline assembly is wrapped in braces.
    for (const std::string& statement : split(line, ';')) {
      std::string_view rest = trim(statement);
      while (rest.starts_with("{")) rest = trim(rest.substr(1));
      if (rest.starts_with("@"))
        rest = trim(rest.substr(std::min(rest.find_first_of(" \t"), rest.size())));
      const std::string_view opcode = rest.substr(0, rest.find_first_of(" \t"));
      if (!is_float_atomic(opcode)) continue;
      return fail(Code::kInvalidDeclaration,
                  fmt::format("{} uses '{}': the order of such updates differs from run to run, so "
                              "a DETERMINISTIC kernel "
                              "may not; sum in a fixed order, or declare another tier",
                              entry, opcode),
                  kWhere);
    }
  }
  return {};
}

}  // namespace opforge
