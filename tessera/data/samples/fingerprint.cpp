#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tessera/base/files/file_sample.hpp"
#include "tessera/data/samples/data_set.hpp"

namespace tessera::data {
namespace {

// Behind the hash of what came before.
void add_file(const std::string& path, Fingerprint& sum) {
  const RandomAccessFile file(path);
  const std::vector<std::byte> sample = file_sample(file);
  sum.bytes += file.bytes();
  sum.hash = XXH3_64bits_withSeed(sample.data(), sample.size(), sum.hash ^ file.bytes());
}

}  // namespace

Fingerprint fingerprint_of(std::span<const std::string> sources) {
  Fingerprint out;
  for (const std::string& source : sources) {
    const std::string name = pair_name(source);
    for (const std::string& pair : {name, name + ".mask"}) {
      if (pair != name && !is_pair(pair)) continue;
      add_file(pair + ".idx", out);
      add_file(pair + ".bin", out);
    }
  }
  return out;
}

}  // namespace tessera::data
