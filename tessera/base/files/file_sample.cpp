#include "tessera/base/files/file_sample.hpp"

#include <algorithm>

namespace tessera {

std::vector<std::byte> file_sample(const RandomAccessFile& file) {
  constexpr std::size_t kBlocks = 64, kBlockBytes = 4096;
  std::vector<std::byte> out(std::min<std::uint64_t>(file.bytes(), kBlocks * kBlockBytes));
  if (out.size() < kBlocks * kBlockBytes)
    file.read(0, out);
  else
    for (std::size_t i = 0; i < kBlocks; ++i)
      file.read((file.bytes() - kBlockBytes) * i / (kBlocks - 1),
                std::span(out).subspan(i * kBlockBytes, kBlockBytes));
  return out;
}

}  // namespace tessera
