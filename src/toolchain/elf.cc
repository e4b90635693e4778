#include "toolchain/elf.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

namespace opforge {

namespace {

tl::unexpected<Error> damaged(std::string_view what) {
  return fail(Code::kCorrupt, fmt::format("not a usable shared object: {}", what), "toolchain/elf");
}

template <class T>
std::optional<T> at(std::string_view bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::optional<std::string> text_at(std::string_view bytes, std::uint64_t offset) {
  if (offset >= bytes.size()) return std::nullopt;
  const std::size_t end = bytes.find('\0', offset);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(bytes.substr(offset, end - offset));
}

struct Dynamic {
  std::uint64_t strings = 0;
  std::vector<std::uint64_t> needed;
  bool constructors = false;
};

// Virtual address to file offset through the loaded segments.
std::optional<std::uint64_t> file_offset(std::span<const Elf64_Phdr> segments,
                                         std::uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return std::nullopt;
}

std::optional<Dynamic> read_dynamic(std::string_view bytes, const Elf64_Phdr& segment) {
  Dynamic found;
  for (std::uint64_t at_byte = 0; at_byte + sizeof(Elf64_Dyn) <= segment.p_filesz;
       at_byte += sizeof(Elf64_Dyn)) {
    const auto entry = at<Elf64_Dyn>(bytes, segment.p_offset + at_byte);
    if (!entry) return std::nullopt;
    if (entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_NEEDED) found.needed.push_back(entry->d_un.d_val);
    if (entry->d_tag == DT_STRTAB) found.strings = entry->d_un.d_ptr;
    if ((entry->d_tag == DT_INIT_ARRAYSZ && entry->d_un.d_val > 0) || entry->d_tag == DT_INIT)
      found.constructors = true;
  }
  return found;
}

Status read_symbols(std::string_view bytes, const Elf64_Ehdr& header, ElfFacts& facts) {
  for (unsigned i = 0; i < header.e_shnum; i++) {
    const auto section =
        at<Elf64_Shdr>(bytes, header.e_shoff + std::uint64_t(i) * sizeof(Elf64_Shdr));
    if (!section) return damaged("the section table is cut");
    if (section->sh_type != SHT_DYNSYM) continue;
    const auto strings = at<Elf64_Shdr>(
        bytes, header.e_shoff + std::uint64_t(section->sh_link) * sizeof(Elf64_Shdr));
    if (!strings) return damaged("the string section is missing");
    for (std::uint64_t at_byte = sizeof(Elf64_Sym); at_byte + sizeof(Elf64_Sym) <= section->sh_size;
         at_byte += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(bytes, section->sh_offset + at_byte);
      if (!symbol) return damaged("the symbol table is cut");
      const auto name = text_at(bytes, strings->sh_offset + symbol->st_name);
      if (!name) return damaged("a symbol's name lies outside the file");
      if (symbol->st_shndx == SHN_UNDEF) {
        if (ELF64_ST_BIND(symbol->st_info) != STB_WEAK) facts.undefined.push_back(*name);
      } else if (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL) {
        facts.exported.push_back(*name);
      }
    }
  }
  std::sort(facts.undefined.begin(), facts.undefined.end());
  std::sort(facts.exported.begin(), facts.exported.end());
  return {};
}

}  // namespace

Result<ElfFacts> read_elf(std::string_view bytes) {
  const auto header = at<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
    return damaged("no ELF header");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_DYN)
    return damaged("not a 64-bit shared object");
  std::vector<Elf64_Phdr> segments;
  for (unsigned i = 0; i < header->e_phnum; i++) {
    const auto segment =
        at<Elf64_Phdr>(bytes, header->e_phoff + std::uint64_t(i) * sizeof(Elf64_Phdr));
    if (!segment) return damaged("the segment table is cut");
    segments.push_back(*segment);
  }
  ElfFacts facts;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0)
      facts.text_bytes += std::int64_t(segment.p_filesz);
    if (segment.p_type != PT_DYNAMIC) continue;
    const auto dynamic = read_dynamic(bytes, segment);
    if (!dynamic) return damaged("the dynamic section is cut");
    facts.constructors = dynamic->constructors;
    const auto strings = file_offset(segments, dynamic->strings);
    if (!strings && !dynamic->needed.empty()) return damaged("no string table");
    for (const std::uint64_t offset : dynamic->needed) {
      const auto name = text_at(bytes, *strings + offset);
      if (!name) return damaged("a library's name lies outside the file");
      facts.needed.push_back(*name);
    }
  }
  OPFORGE_TRY(read_symbols(bytes, *header, facts));
  return facts;
}

}  // namespace opforge
