// Part of a file that stands for all of it: enough to tell files apart that differ in more than a few places,
// and read in a moment from any disk.
#pragma once

#include <cstddef>
#include <vector>

#include "tessera/base/files/random_access_file.hpp"

namespace tessera {

// Blocks spread over the file, the first and the last among them; all of a small one.
std::vector<std::byte> file_sample(const RandomAccessFile& file);

}  // namespace tessera
