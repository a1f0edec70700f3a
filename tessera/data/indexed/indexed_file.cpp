#include "tessera/data/indexed/indexed_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <vector>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

constexpr char kMagic[] = "MMIDIDX\0";  // nine bytes with the one that ends a literal
constexpr std::uint64_t kVersion = 1;
static_assert(sizeof kMagic == 9);

template <typename T>
T number_at(std::span<const std::byte> bytes, std::size_t begin) {
  T out;
  std::memcpy(&out, bytes.data() + begin, sizeof out);
  return out;
}

template <typename T>
void read_numbers(const RandomAccessFile& file, std::uint64_t begin, std::span<T> out) {
  file.read(begin, std::as_writable_bytes(out));
}

IndexHeader header_of(const RandomAccessFile& index) {
  std::array<std::byte, kIndexHeaderBytes> header;
  if (index.bytes() < header.size())
    throw UserError(cat("'", index.path(), "' has ", index.bytes(),
                        " bytes; the header of an index alone has ", kIndexHeaderBytes));
  index.read(0, header);
  return parse_index_header(header, index.bytes(), index.path());
}

}  // namespace

IndexHeader parse_index_header(std::span<const std::byte> header, std::uint64_t file_bytes,
                               const std::string& path) {
  TESSERA_CHECK(header.size() == kIndexHeaderBytes, header.size(), " bytes of a header");
  if (std::memcmp(header.data(), kMagic, sizeof kMagic) != 0)
    throw UserError(cat("'", path, "' is no index of tokens: it does not begin with MMIDIDX"));
  if (const auto version = number_at<std::uint64_t>(header, 9); version != kVersion)
    throw UserError(cat("'", path, "' has version ", version, "; only version 1 is known"));
  IndexHeader out{.type = parse_token_type(number_at<std::uint8_t>(header, 17), path),
                  .num_sequences = number_at<std::uint64_t>(header, 18)};
  const auto marks = number_at<std::uint64_t>(header, 26);  // begins of documents, and the end of the last
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56;   // so that nothing below overflows
  if (out.num_sequences > kMost || marks > kMost || marks == 0)
    throw UserError(cat("'", path, "' is damaged: it counts ", out.num_sequences, " sequences and ", marks,
                        " begins of documents"));
  out.num_documents = marks - 1;
  const std::uint64_t plain = kIndexHeaderBytes + 12 * out.num_sequences + 8 * marks;
  if (out.num_sequences > 0 && file_bytes == plain + out.num_sequences)
    throw UserError(cat("'", path, "' is an index of several kinds of input (modes), which are not read"));
  if (file_bytes != plain)
    throw UserError(cat("'", path, "' has ", file_bytes, " bytes, but ", out.num_sequences, " sequences and ",
                        out.num_documents, " documents need ", plain,
                        ". It was cut off or is still being written; make it anew."));
  return out;
}

void write_index_header(const IndexHeader& header, std::span<std::byte> out) {
  TESSERA_CHECK(out.size() == kIndexHeaderBytes, out.size());
  const auto put = [&](std::size_t at, const auto& value) {
    std::memcpy(out.data() + at, &value, sizeof value);
  };
  std::memcpy(out.data(), kMagic, sizeof kMagic);
  put(9, kVersion);
  put(17, header.type);
  put(18, header.num_sequences);
  put(26, header.num_documents + 1);
}

std::string pair_name(const std::string& path) {
  return path.ends_with(".idx") || path.ends_with(".bin") ? path.substr(0, path.size() - 4) : path;
}

bool is_pair(const std::string& path) {
  std::error_code ignored;
  const std::string name = pair_name(path);
  return std::filesystem::is_regular_file(name + ".idx", ignored) &&
         std::filesystem::is_regular_file(name + ".bin", ignored);
}

IndexedFile::IndexedFile(const std::string& name)
    : name_(pair_name(name)), index_(name_ + ".idx"), header_(header_of(index_)) {
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(name_ + ".bin", error);
  if (error) throw UserError(cat("cannot read file '", name_, ".bin': ", error.message()));
  const std::uint64_t size = bytes_of(type());
  if (header_.num_sequences > 0) {
    std::int32_t length = 0;
    std::uint64_t pointer = 0;
    read_numbers(index_, lengths_at() + 4 * (header_.num_sequences - 1), std::span(&length, 1));
    read_numbers(index_, pointers_at() + 8 * (header_.num_sequences - 1), std::span(&pointer, 1));
    num_tokens_ = pointer / size + static_cast<std::uint64_t>(std::max(length, 0));
    if (length < 0 || pointer % size != 0 || num_tokens_ * size > bytes || pointer > bytes)
      throw UserError(cat("'", name_, ".bin' has ", bytes, " bytes, but the last sequence of '", name_,
                          ".idx' has ", length, " tokens at byte ", pointer,
                          ". The two files don't belong together, or one was cut off."));
  }
  std::uint64_t ends[2] = {0, 0};
  read_numbers(index_, documents_at(), std::span(&ends[0], 1));
  read_numbers(index_, documents_at() + 8 * num_documents(), std::span(&ends[1], 1));
  if (ends[0] != 0 || ends[1] != header_.num_sequences)
    throw UserError(cat("'", name_, ".idx' is damaged: its documents are sequences ", ends[0], " to ",
                        ends[1], ", not all of its ", header_.num_sequences));
}

std::uint64_t IndexedFile::place_of(std::uint64_t pointer, std::uint64_t sequence) const {
  const std::uint64_t size = bytes_of(type());
  if (pointer % size != 0 || pointer / size > num_tokens_)
    throw UserError(cat("'", name_, ".idx' is damaged: sequence ", sequence, " begins at byte ", pointer,
                        " of ", num_tokens_ * size));
  return pointer / size;
}

void IndexedFile::sequence_begins(std::uint64_t first, std::span<std::uint64_t> out) const {
  const std::uint64_t known = std::min<std::uint64_t>(out.size(), header_.num_sequences - first);
  read_numbers(index_, pointers_at() + 8 * first, out.first(known));
  for (std::uint64_t i = 0; i < known; ++i) out[i] = place_of(out[i], first + i);
  if (known < out.size()) out.back() = num_tokens_;
}

void IndexedFile::begins(std::uint64_t first, std::span<std::uint64_t> out) const {
  TESSERA_CHECK(first + out.size() <= num_documents() + 1, "documents ", first, " to ", first + out.size(),
                " of ", num_documents());
  if (out.empty()) return;
  read_numbers(index_, documents_at() + 8 * first, out);
  const auto damaged = [&](std::size_t i) {
    throw UserError(cat("'", name_, ".idx' is damaged: document ", first + i, " begins at sequence ", out[i],
                        ", which is none or comes too early"));
  };
  bool is_plain = true;  // every document is one sequence
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] > header_.num_sequences || (i > 0 && out[i] < out[i - 1])) damaged(i);
    is_plain = is_plain && out[i] == out[0] + i;
  }
  if (is_plain) {
    sequence_begins(out[0], out);
  } else {
    for (std::uint64_t& place : out) sequence_begins(place, {&place, 1});
  }
  for (std::size_t i = 1; i < out.size(); ++i)
    if (out[i] < out[i - 1])
      throw UserError(cat("'", name_, ".idx': document ", first + i,
                          " lies before the one ahead of it. tessera data merge writes a pair in order."));
}

const RandomAccessFile& IndexedFile::bin() const {
  std::call_once(opened_, [this] { bin_ = std::make_unique<RandomAccessFile>(name_ + ".bin"); });
  return *bin_;
}

void IndexedFile::read(std::uint64_t first, std::span<std::int64_t> out) const {
  TESSERA_CHECK(first + out.size() <= num_tokens_, "tokens ", first, " to ", first + out.size(), " of ",
                num_tokens_);
  const std::size_t size = bytes_of(type());
  std::vector<std::byte> bytes(out.size() * size);
  bin().read(first * size, bytes);
  to_tokens(type(), bytes, out);
}

void IndexedFile::check() const {
  constexpr std::uint64_t kBlock = 1 << 16;
  std::vector<std::int32_t> lengths(kBlock);
  std::vector<std::uint64_t> places(kBlock + 1);
  for (std::uint64_t first = 0; first < header_.num_sequences; first += kBlock) {
    const std::uint64_t count = std::min(kBlock, header_.num_sequences - first);
    read_numbers(index_, lengths_at() + 4 * first, std::span(lengths).first(count));
    sequence_begins(first, std::span(places).first(count + 1));
    if (first == 0 && places[0] != 0)
      throw UserError(cat("'", name_, ".idx': the first sequence begins at token ", places[0]));
    for (std::uint64_t i = 0; i < count; ++i)
      if (lengths[i] < 0 || places[i] + static_cast<std::uint64_t>(lengths[i]) != places[i + 1])
        throw UserError(cat("'", name_, ".idx' is damaged: sequence ", first + i, " has ", lengths[i],
                            " tokens from ", places[i], " on, and the next one begins at ", places[i + 1]));
  }
  for (std::uint64_t first = 0; first <= num_documents(); first += kBlock)
    begins(first, std::span(places).first(std::min(kBlock + 1, num_documents() + 1 - first)));
}

}  // namespace tessera::data
