// What it costs to open a pair of very many documents, and to read samples of it. Writes the index for real;
// the .bin file is a hole. usage: data_speed NAME DOCUMENTS SAMPLES
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/process/resident.hpp"
#include "tessera/base/random.hpp"
#include "tessera/data/indexed/appended_file.hpp"
#include "tessera/data/samples/data_set.hpp"

using namespace tessera;

namespace {

// Lengths of about 600 tokens, from 100 to 1100.
std::int64_t length_of(std::uint64_t document) {
  const std::uint64_t mixed = (document + 1) * 0x9E3779B97F4A7C15;
  return 100 + static_cast<std::int64_t>((mixed >> 40) % 1001);
}

// Three passes, as the file has lengths, places and documents one after the other.
void write_index(const std::string& name, std::uint64_t documents) {
  data::AppendedFile index(name + ".idx", 0);
  std::array<std::byte, data::kIndexHeaderBytes> header;
  data::write_index_header({data::TokenType::u16, documents, documents}, header);
  index.append(header);
  const auto append = [&](auto number) { index.append(std::as_bytes(std::span(&number, 1))); };
  for (std::uint64_t i = 0; i < documents; ++i) append(static_cast<std::int32_t>(length_of(i)));
  std::int64_t pointer = 0;
  for (std::uint64_t i = 0; i < documents; ++i) append(pointer), pointer += 2 * length_of(i);
  for (std::uint64_t i = 0; i <= documents; ++i) append(static_cast<std::int64_t>(i));
  index.sync();
  data::AppendedFile(name + ".bin", 0).sync();
  std::filesystem::resize_file(name + ".bin", static_cast<std::uint64_t>(pointer));
}

void measure(const std::string& name, data::PackingKind packing, std::uint64_t samples) {
  constexpr std::int64_t kSequence = 4096;
  const std::int64_t before = resident_bytes();
  const double begun = now_seconds();
  const data::DataSet set({.sources = {name}, .packing = packing, .sequence = kSequence});
  const double opened = now_seconds();
  const std::int64_t at_open = resident_bytes() - before;
  std::vector<std::int64_t> tokens(kSequence), targets(kSequence);
  for (std::uint64_t i = 0; i < samples; ++i) set.fill(std::span(&i, 1), {tokens, targets});
  const double read = now_seconds();
  std::printf(
      "%-8s  opened in %.3f s, %.1f MB larger; %.1f us a sample, then %.1f MB larger; %.2f %% filled\n",
      packing == data::PackingKind::cut ? "cut" : "best-fit", opened - begun,
      static_cast<double>(at_open) * 1e-6, (read - opened) * 1e6 / static_cast<double>(samples),
      static_cast<double>(resident_bytes() - before) * 1e-6,
      100.0 * static_cast<double>(set.source(0).num_tokens()) /
          static_cast<double>(set.num_samples(0) * kSequence));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: data_speed NAME DOCUMENTS SAMPLES\n"), 2;
  const std::string name = argv[1];
  try {
    write_index(name, std::strtoull(argv[2], nullptr, 10));
    for (const auto packing : {data::PackingKind::cut, data::PackingKind::best_fit})
      measure(name, packing, std::strtoull(argv[3], nullptr, 10));
  } catch (const UserError& error) {
    return std::fprintf(stderr, "data_speed: %s\n", error.what()), 2;
  }
  std::filesystem::remove(name + ".idx");
  std::filesystem::remove(name + ".bin");
}
