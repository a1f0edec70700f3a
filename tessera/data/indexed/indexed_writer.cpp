#include "tessera/data/indexed/indexed_writer.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/base/files/random_access_file.hpp"
#include "tessera/data/indexed/indexed_file.hpp"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

constexpr char kBinPart[] = ".bin.part", kLengthsPart[] = ".lengths.part", kIndexPart[] = ".idx.part";

// A writer that was stopped between its two last renames has given the .bin file its name already.
std::string bin_part(const std::string& name, const PairMark& from) {
  std::error_code ignored;
  if (from.documents > 0 && !fs::exists(name + kBinPart, ignored) && !fs::exists(name + ".idx", ignored))
    fs::rename(name + ".bin", name + kBinPart, ignored);
  return name + kBinPart;
}

template <typename T>
void append_numbers(AppendedFile& file, std::span<const T> numbers) {
  file.append(std::as_bytes(numbers));
}

}  // namespace

IndexedWriter::IndexedWriter(std::string name, TokenType type, const PairMark& from)
    : name_(std::move(name)),
      type_(type),
      mark_(from),
      bin_(bin_part(name_, from), from.tokens * bytes_of(type)),
      lengths_(name_ + kLengthsPart, from.documents * sizeof(std::int32_t)) {}

void IndexedWriter::add(std::span<const std::int32_t> tokens) {
  TESSERA_CHECK(tokens.size() <= std::numeric_limits<std::int32_t>::max(), "a document of ", tokens.size());
  bytes_.resize(tokens.size() * bytes_of(type_));
  to_bytes(type_, tokens, bytes_);
  bin_.append(bytes_);
  const auto length = static_cast<std::int32_t>(tokens.size());
  append_numbers(lengths_, std::span(&length, 1));
  ++mark_.documents;
  mark_.tokens += tokens.size();
}

PairMark IndexedWriter::sync() {
  bin_.sync();
  lengths_.sync();
  return mark_;
}

// The lengths are read three times rather than held.
AppendedFile IndexedWriter::write_index() const {
  constexpr std::uint64_t kBlock = 1 << 16;
  const RandomAccessFile lengths(lengths_.path());
  AppendedFile index(name_ + kIndexPart, 0);
  std::array<std::byte, kIndexHeaderBytes> header;
  write_index_header({type_, mark_.documents, mark_.documents}, header);
  index.append(header);
  std::vector<std::int32_t> block(kBlock);
  std::vector<std::int64_t> numbers;
  const auto for_blocks = [&](const auto& act) {
    for (std::uint64_t first = 0; first < mark_.documents; first += kBlock) {
      const auto some = std::span(block).first(std::min(kBlock, mark_.documents - first));
      lengths.read(first * sizeof(std::int32_t), std::as_writable_bytes(some));
      numbers.clear();
      act(first, some);
      append_numbers(index, std::span<const std::int64_t>(numbers));
    }
  };
  for_blocks([&](std::uint64_t, std::span<const std::int32_t> some) { append_numbers(index, some); });
  std::int64_t pointer = 0;
  for_blocks([&](std::uint64_t, std::span<const std::int32_t> some) {
    for (const std::int32_t length : some) {
      numbers.push_back(pointer);
      pointer += length * static_cast<std::int64_t>(bytes_of(type_));
    }
  });
  for_blocks([&](std::uint64_t first, std::span<const std::int32_t> some) {
    for (std::size_t i = 0; i < some.size(); ++i) numbers.push_back(static_cast<std::int64_t>(first + i));
  });
  const auto end = static_cast<std::int64_t>(mark_.documents);
  append_numbers(index, std::span(&end, 1));
  index.sync();
  return index;
}

void IndexedWriter::finish() {
  sync();
  AppendedFile index = write_index();
  bin_.rename_to(name_ + ".bin");
  index.rename_to(name_ + ".idx");
  fs::remove(lengths_.path());
}

void remove_parts(const std::string& name) {
  std::error_code ignored;
  for (const char* part : {kBinPart, kLengthsPart, kIndexPart}) fs::remove(name + part, ignored);
}

}  // namespace tessera::data
