// The code bytes of an OpenCL artifact: the driver's binary, the source that it was made of, and
// the device that it is good for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/opencl/device.hpp"

namespace opforge::ocl {

struct CodeImage {
  Identity built_for;
  std::vector<std::string> options;  // of the compiler
  std::string source;                // one text, without includes
  std::string binary;                // as the driver gave it
};

std::string pack_image(const CodeImage& image);
// kCorrupt unless all of it is there.
Result<CodeImage> unpack_image(std::string_view bytes);

// PoCL writes the name of its cache folder into a binary, which differs between two builds of the
// same code; it is replaced by one made from `key`. Other binaries, and other versions of PoCL's
// format, stay as they are.
void make_reproducible(std::string& binary, std::string_view key);

}  // namespace opforge::ocl
