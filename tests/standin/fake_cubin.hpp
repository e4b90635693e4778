// Builds small cubins for tests: the sections that say what a kernel takes, and no code that could
// run.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace opforge::test {

struct FakeKernel {
  std::string symbol;
  std::vector<std::uint32_t>
      param_sizes;  // offsets follow from natural alignment; tensor maps (128) at multiples of 64
  std::uint32_t static_shared = 0;
  std::uint32_t max_threads = 0;  // 0: no launch bound
  std::uint32_t registers = 32, frame = 0;
};

namespace detail {
template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
inline void attribute(std::string& out, std::uint8_t number, const std::string& payload) {
  put<std::uint8_t>(out, 4);
  put<std::uint8_t>(out, number);
  put<std::uint16_t>(out, static_cast<std::uint16_t>(payload.size()));
  out += payload;
}
inline std::string kernel_info(const FakeKernel& kernel) {
  std::string info;
  std::uint32_t offset = 0;
  for (std::size_t i = 0; i < kernel.param_sizes.size(); ++i) {
    const std::uint32_t size = kernel.param_sizes[i];
    const std::uint32_t align = size >= 128 ? 64 : size >= 8 ? 8 : size;
    offset = (offset + align - 1) / align * align;
    std::string payload;
    put<std::uint32_t>(payload, 0);
    put<std::uint16_t>(payload, static_cast<std::uint16_t>(i));
    put<std::uint16_t>(payload, static_cast<std::uint16_t>(offset));
    put<std::uint32_t>(payload, size << 18 | 0x1f000);
    attribute(info, 0x17, payload);
    offset += size;
  }
  if (kernel.max_threads != 0) {
    std::string payload;
    for (const std::uint32_t n : {kernel.max_threads, 1u, 1u}) put(payload, n);
    attribute(info, 0x05, payload);
  }
  return info;
}
}  // namespace detail

// `arch` as 90; `abi` 8 as toolkit 13 writes it, 7 as toolkit 12.
inline std::string fake_cubin(int arch, const std::vector<FakeKernel>& kernels, int abi = 8) {
  using detail::put;
  struct Section {
    std::string name, data;
    std::uint32_t type = 1;
    std::uint64_t size = 0;
  };
  std::vector<Section> sections{{"", "", 0},
                                {".shstrtab", "", 3},
                                {".strtab", std::string(1, '\0'), 3},
                                {".symtab", std::string(24, '\0'), 2}};
  std::string general;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    put<std::uint32_t>(sections[3].data, static_cast<std::uint32_t>(sections[2].data.size()));
    sections[3].data.append(20, '\0');
    sections[2].data += kernels[i].symbol + '\0';
    std::string registers, frame;
    put<std::uint32_t>(registers, static_cast<std::uint32_t>(i + 1));
    put<std::uint32_t>(registers, kernels[i].registers);
    put<std::uint32_t>(frame, static_cast<std::uint32_t>(i + 1));
    put<std::uint32_t>(frame, kernels[i].frame);
    detail::attribute(general, 0x2f, registers);
    detail::attribute(general, 0x11, frame);
  }
  sections.push_back({".nv.info", general});
  for (const FakeKernel& kernel : kernels) {
    sections.push_back({".nv.info." + kernel.symbol, detail::kernel_info(kernel)});
    sections.push_back({".text." + kernel.symbol, std::string(128, '\0')});
    if (kernel.static_shared != 0)
      sections.push_back({".nv.shared." + kernel.symbol, "", 8, kernel.static_shared});
  }
  std::vector<std::uint32_t> name_offsets;
  for (const Section& section : sections) {
    name_offsets.push_back(static_cast<std::uint32_t>(sections[1].data.size()));
    sections[1].data += section.name + '\0';
  }
  std::string elf("\177ELF\2\1\1", 7);
  elf += static_cast<char>(0x41);
  elf += static_cast<char>(abi);
  elf.append(7, '\0');
  put<std::uint16_t>(elf, 2);
  put<std::uint16_t>(elf, 190);
  put<std::uint32_t>(elf, 2);
  elf.append(16, '\0');
  std::uint64_t table = 64;
  for (const Section& section : sections) table += (section.data.size() + 7) / 8 * 8;
  put<std::uint64_t>(elf, table);
  put<std::uint32_t>(elf, abi >= 8 ? 0x6000004u | static_cast<std::uint32_t>(arch) << 8
                                   : 0x500u | static_cast<std::uint32_t>(arch));
  for (const int half : {64, 56, 0, 64, static_cast<int>(sections.size()), 1})
    put<std::uint16_t>(elf, static_cast<std::uint16_t>(half));
  std::string headers;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Section& s = sections[i];
    put<std::uint32_t>(headers, name_offsets[i]);
    put<std::uint32_t>(headers, s.type);
    put<std::uint64_t>(headers, 0);
    put<std::uint64_t>(headers, 0);
    put<std::uint64_t>(headers, elf.size());
    put<std::uint64_t>(headers, s.type == 8 ? s.size : s.data.size());
    headers.append(24, '\0');
    elf += s.data;
    elf.append((8 - elf.size() % 8) % 8, '\0');
  }
  return elf + headers;
}

}  // namespace opforge::test
