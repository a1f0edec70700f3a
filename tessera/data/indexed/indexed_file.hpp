// A pair of files name.bin and name.idx, as Megatron-LM reads and writes them: tokens one after the other,
// and where each document begins. Opening reads the header alone, whatever the number of documents.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "tessera/base/files/random_access_file.hpp"
#include "tessera/data/indexed/documents.hpp"
#include "tessera/data/indexed/token_type.hpp"

namespace tessera::data {

// What an .idx file begins with.
struct IndexHeader {
  TokenType type = TokenType::u16;
  std::uint64_t num_sequences = 0;
  std::uint64_t num_documents = 0;  // one less than the file's count, which counts the end of the last
  bool operator==(const IndexHeader&) const = default;
};
inline constexpr std::size_t kIndexHeaderBytes = 34;

// Throws UserError naming `path` when the header is damaged or an index with it would not have `file_bytes`.
IndexHeader parse_index_header(std::span<const std::byte> header, std::uint64_t file_bytes,
                               const std::string& path);
// The other way round.
void write_index_header(const IndexHeader& header, std::span<std::byte> out);

// Safe to read from several threads. What is wrong with a place of the index is a UserError of whoever reads
// there; check() looks at every place.
class IndexedFile : public Documents {
 public:
  // `name` is without .bin and .idx, or with either. The .bin file is opened when it is first read. Throws
  // UserError when one is missing, the header is damaged, or the .bin file is shorter than the index says.
  explicit IndexedFile(const std::string& name);

  const std::string& name() const { return name_; }
  TokenType type() const { return header_.type; }
  const IndexHeader& header() const { return header_; }
  std::uint64_t num_documents() const override { return header_.num_documents; }
  std::uint64_t num_tokens() const override { return num_tokens_; }
  void begins(std::uint64_t first, std::span<std::uint64_t> out) const override;
  void read(std::uint64_t first, std::span<std::int64_t> out) const override;

  // Reads all of the index. Throws UserError naming the first sequence that does not begin where the one
  // before it ends, and the first document that begins at no sequence.
  void check() const;

 private:
  std::uint64_t lengths_at() const { return kIndexHeaderBytes; }
  std::uint64_t pointers_at() const { return lengths_at() + 4 * header_.num_sequences; }
  std::uint64_t documents_at() const { return pointers_at() + 8 * header_.num_sequences; }
  // Places where sequences first, first + 1, ... begin.
  void sequence_begins(std::uint64_t first, std::span<std::uint64_t> out) const;
  std::uint64_t place_of(std::uint64_t pointer, std::uint64_t sequence) const;
  const RandomAccessFile& bin() const;

  std::string name_;
  RandomAccessFile index_;
  IndexHeader header_;
  std::uint64_t num_tokens_ = 0;
  mutable std::once_flag opened_;
  mutable std::unique_ptr<RandomAccessFile> bin_;
};

// The name of a pair without .bin or .idx.
std::string pair_name(const std::string& path);
// Whether both files are there.
bool is_pair(const std::string& path);

}  // namespace tessera::data
