// Just enough of NumPy's file format for this example: little-endian, row-major.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

struct Npy {
  std::string descr;  // "<f4"
  std::vector<char> bytes;
};

inline Npy read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (all.size() < 10 || all.compare(0, 6, "\x93NUMPY") != 0)
    throw std::runtime_error(path + " is not an .npy file");
  const bool long_header = all[6] >= 2;
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(all.at(i)));
  };
  std::size_t header = byte(8) | byte(9) << 8;
  if (long_header) header |= byte(10) << 16 | byte(11) << 24;
  const std::size_t start = (long_header ? 12 : 10) + header;
  if (start > all.size()) throw std::runtime_error(path + " is cut off");
  const std::string text = all.substr(0, start);
  if (text.find("'fortran_order': False") == std::string::npos)
    throw std::runtime_error(path + " is not row-major");
  const auto descr = text.find("'descr': '");
  if (descr == std::string::npos) throw std::runtime_error(path + " has no dtype");
  Npy array;
  array.descr = text.substr(descr + 10, text.find('\'', descr + 10) - descr - 10);
  array.bytes.assign(all.begin() + static_cast<std::ptrdiff_t>(start), all.end());
  return array;
}

inline std::vector<double> read_doubles(const std::string& path) {
  const Npy array = read_npy(path);
  if (array.descr != "<f8")
    throw std::runtime_error(path + " holds " + array.descr + ", expected <f8");
  std::vector<double> values(array.bytes.size() / 8);
  std::memcpy(values.data(), array.bytes.data(), values.size() * 8);
  return values;
}
