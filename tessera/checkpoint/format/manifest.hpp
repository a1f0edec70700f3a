// The manifest of a checkpoint: its state of training, its tensors and where each piece of them lies, as a
// text that any flipped bit spoils.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/box.hpp"
#include "tessera/checkpoint/format/file_writer.hpp"

namespace tessera::checkpoint {

inline constexpr std::int64_t kFormatVersion = 1;
inline constexpr char kManifestName[] = "manifest.json";

// What a run needs besides its tensors to go on as if it had not stopped.
struct Progress {
  std::int64_t step = 0;          // steps made
  std::int64_t updates = 0;       // steps that changed the weights
  std::uint64_t next_sample = 0;  // global index
  std::uint64_t seed = 0;         // of weights and dropout
  double loss_scale = 0;          // 0: the run has none
  std::int64_t good_steps = 0;    // updates since the scale last changed
  // Updates that were made when the optimizer last began with an empty state; below 0: it has made so many
  // more, as steps had several (layout.updates).
  std::int64_t reset_after = 0;
  bool operator==(const Progress&) const = default;
};

struct Tensor {
  std::string dtype;  // as safetensors has it: "F32"
  Shape shape;
  bool operator==(const Tensor&) const = default;
};

// A box of a tensor, row-major in a file from byte `begin` on.
struct Piece {
  std::string tensor;
  Box box;
  std::uint32_t file = 0;  // index into Manifest::files
  std::uint64_t begin = 0;
  bool operator==(const Piece&) const = default;
};

// Which file a run was trained on: its size, and the hash of blocks spread over it.
struct DataIdentity {
  std::uint64_t bytes = 0, hash = 0;
  bool operator==(const DataIdentity&) const = default;
};

struct Manifest {
  std::string written_by;  // version of Tessera
  Progress progress;
  std::string config;        // the run file with all defaults; empty: an import
  std::string program_hash;  // of the program's text
  std::optional<DataIdentity> data = std::nullopt;
  std::map<std::string, Tensor> tensors;
  std::vector<File> files;  // those that hold no piece are attached: files of an import
  std::vector<Piece> pieces;
  bool operator==(const Manifest&) const = default;
};

// Begins with the hash of all that follows it.
std::string to_text(const Manifest& manifest);

// Throws UserError that says what is wrong in `path`: damage, a version that is not known yet, a piece
// outside its tensor or file, a tensor with holes, a file name that leaves the folder.
Manifest parse_manifest(std::string_view text, const std::string& path);

// The same of one rank's part, whose pieces need not fill their tensors.
Manifest parse_part(std::string_view text, const std::string& path);

// All parts as one; throws UserError when they contradict each other. Progress, config and versions are the
// first's.
Manifest merged(const std::vector<Manifest>& parts);

// Names of the tensors as they lie in the files: whoever reads all of them in this order reads from front to
// end.
std::vector<std::string> tensors_in_file_order(const Manifest& manifest);

// Bytes. The dtype must be known.
std::uint64_t bytes_of(const Tensor& tensor);
std::uint64_t bytes_of(const Piece& piece, const Tensor& tensor);

}  // namespace tessera::checkpoint
