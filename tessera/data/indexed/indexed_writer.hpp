// Writes a pair name.bin and name.idx document by document, in memory that does not grow with their number.
// Until the pair is finished its parts are name.bin.part and name.lengths.part.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/data/indexed/appended_file.hpp"
#include "tessera/data/indexed/token_type.hpp"

namespace tessera::data {

// How far a pair has come.
struct PairMark {
  std::uint64_t documents = 0, tokens = 0;
  bool operator==(const PairMark&) const = default;
};

class IndexedWriter {
 public:
  // Begins a pair, or goes on with the parts of an earlier writer from a mark that sync() returned; what they
  // hold beyond it is dropped. Throws UserError when the disk refuses.
  IndexedWriter(std::string name, TokenType type, const PairMark& from = {});

  // A document of one sequence. Throws Bug when a token is outside of the type.
  void add(std::span<const std::int32_t> tokens);
  const PairMark& mark() const { return mark_; }
  // Returns when all that was added is on the disk.
  PairMark sync();
  // Writes the index; then the pair is there under its name.
  void finish();

 private:
  AppendedFile write_index() const;

  std::string name_;
  TokenType type_;
  PairMark mark_;
  AppendedFile bin_, lengths_;
  std::vector<std::byte> bytes_;
};

// Removes the parts of a pair that nobody will finish.
void remove_parts(const std::string& name);

}  // namespace tessera::data
