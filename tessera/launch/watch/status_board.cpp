#include "tessera/launch/watch/status_board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

static_assert(std::atomic<double>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free,
              "a lock would belong to one process");

constexpr std::size_t kHeadBytes = 256;
static_assert(alignof(ActivityLog) <= kHeadBytes);

std::size_t board_bytes(int num_ranks) {
  return kHeadBytes + static_cast<std::size_t>(num_ranks) * sizeof(ActivityLog);
}

}  // namespace

StatusBoard::StatusBoard(int num_ranks)
    : num_ranks_(num_ranks), descriptor_(memfd_create("tessera-board", MFD_CLOEXEC)) {
  // Not only promised: a lack of memory must show here, not as a signal later.
  const auto bytes = static_cast<off_t>(board_bytes(num_ranks));
  if (descriptor_) errno = posix_fallocate(descriptor_.number(), 0, bytes);
  if (!descriptor_ || errno != 0)
    throw UserError(cat("no memory to watch ", num_ranks, " ranks with: ", system_reason()));
  map();
}

StatusBoard::StatusBoard(Descriptor inherited, int num_ranks)
    : num_ranks_(num_ranks), descriptor_(std::move(inherited)) {
  struct stat status {};
  if (fstat(descriptor_.number(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) != board_bytes(num_ranks))
    throw UserError(cat("TESSERA_BOARD does not name a launcher's board of ", num_ranks, " ranks"));
  map();
}

void StatusBoard::map() {
  memory_ =
      mmap(nullptr, board_bytes(num_ranks_), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.number(), 0);
  if (memory_ == MAP_FAILED) throw UserError(cat("cannot map the launcher's board: ", system_reason()));
  // Zeroed memory is a blank board: all members are atomics and characters for which zero is the start.
  static_assert(sizeof(Head) <= kHeadBytes);
  head_ = static_cast<Head*>(memory_);
  logs_ = reinterpret_cast<ActivityLog*>(static_cast<char*>(memory_) + kHeadBytes);
}

StatusBoard::~StatusBoard() {
  if (memory_ && memory_ != MAP_FAILED) munmap(memory_, board_bytes(num_ranks_));
}

void StatusBoard::clear(int rank) { std::memset(static_cast<void*>(logs_ + rank), 0, sizeof(ActivityLog)); }

std::vector<RankState> StatusBoard::states() const {
  std::vector<RankState> out;
  for (int rank = 0; rank < num_ranks_; ++rank) out.push_back(log(rank).state());
  return out;
}

std::vector<std::int64_t> StatusBoard::resident_bytes() const {
  std::vector<std::int64_t> out;
  for (int rank = 0; rank < num_ranks_; ++rank) out.push_back(log(rank).resident_bytes());
  return out;
}

std::vector<std::int64_t> StatusBoard::peak_bytes() const {
  std::vector<std::int64_t> out;
  for (int rank = 0; rank < num_ranks_; ++rank) out.push_back(log(rank).peak_bytes());
  return out;
}

}  // namespace tessera::launch
