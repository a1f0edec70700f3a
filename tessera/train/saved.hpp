// A rank's slices of a checkpoint, whatever the layout: of what several ranks hold alike, each saves an equal
// share.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/folder/checkpoint.hpp"
#include "tessera/checkpoint/format/shard_file.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

// A copy of what this rank brings, which later steps don't touch. The memory is kept for the next.
class Snapshot {
 public:
  void take(Session& session);
  // `began` is called before each part of it, so that somebody can see it get on.
  void write(
      const std::string& folder, std::int64_t rank, checkpoint::Manifest& part,
      const std::function<void()>& began = [] {}) const;

 private:
  std::vector<checkpoint::HeldPiece> pieces_;
  // Not filled with zeros first: that would touch all of it once more, while the steps wait.
  std::unique_ptr<std::byte[]> memory_;
  std::size_t memory_bytes_ = 0;
};

// The same without a copy, one bucket after the other: the session must stand still.
void write_state(
    Session& session, const std::string& folder, std::int64_t rank, checkpoint::Manifest& part,
    const std::function<void()>& began = [] {});

// Weights, optimizer state and progress of a checkpoint that fits (fits.hpp) become the session's; the state
// of another optimizer is left. Throws UserError when something of it is damaged: what the session holds is
// then good for nothing but another restore.
void restore(Session& session, checkpoint::Checkpoint& from);

}  // namespace tessera::train
