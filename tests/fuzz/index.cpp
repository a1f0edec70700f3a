// Bytes taken for the .idx file of a pair are refused by a UserError, when it is opened or where it is read,
// or say where documents lie within the .bin file. The first byte of an input is the number of tokens in that
// file.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/data/indexed/indexed_file.hpp"
#include "tests/fuzz/limits.hpp"

using namespace tessera;
using fuzz::expect;

namespace {

const std::string& name() {
  static const std::string path = cat("/dev/shm/tessera_fuzz_", ::getpid());
  static const int removed = std::atexit([] {
    for (const char* suffix : {".idx", ".bin"}) ::unlink((path + suffix).c_str());
  });
  expect(removed == 0);
  return path;
}

void write(const char* suffix, std::string_view bytes) {
  std::ofstream(name() + suffix, std::ios::binary | std::ios::trunc) << bytes;
}

void read_all(const data::IndexedFile& pair) {
  std::vector<std::uint64_t> begins(pair.num_documents() + 1);
  pair.begins(0, begins);
  for (std::size_t i = 1; i < begins.size(); ++i) expect(begins[i - 1] <= begins[i]);
  expect(begins.back() <= pair.num_tokens());
  std::vector<std::int64_t> tokens(pair.num_tokens());
  pair.read(0, tokens);
  for (std::uint64_t place = 0; place < std::min<std::uint64_t>(pair.num_tokens(), 64); ++place) {
    const std::uint64_t document = data::document_at(pair, place);
    if (begins.front() == 0) expect(begins[document] <= place && place < begins[document + 1]);
  }
  pair.check();
  expect(begins.front() == 0 && begins.back() == pair.num_tokens());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const fuzz::Limits limits;
  write(".bin", std::string(8 * std::size_t{data[0]}, 'x'));
  write(".idx", {reinterpret_cast<const char*>(data) + 1, size - 1});
  try {
    const data::IndexedFile pair(name());
    read_all(pair);
  } catch (const UserError&) {
  }
  return 0;
}
