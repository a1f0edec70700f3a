// By which calls do offloaded bytes reach a file and come back fastest? Reads and writes one after the other,
// or io_uring with several under way; through the page cache, or past it by an aligned buffer.
//   offload_speed FOLDER [MIB]
#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/statistics.hpp"

namespace {

using tessera::UserError;

constexpr std::size_t kChunk = std::size_t{4} << 20;
constexpr std::size_t kDepth = 8;  // of io_uring: chunks under way
constexpr std::size_t kPage = 4096;
constexpr int kRounds = 7;

struct Way {
  const char* name;
  bool uring, direct;
};
constexpr Way kWays[] = {{"pread, pwrite", false, false},
                         {"pread, pwrite past the cache", false, true},
                         {"io_uring", true, false},
                         {"io_uring past the cache", true, true}};

// A file without a name, and the way its bytes go.
class Store {
 public:
  Store(const std::string& folder, const Way& way, std::size_t bytes) : way_(way), bytes_(bytes) {
    std::string path = folder + "/offload-speed-XXXXXX";
    file_ = ::mkostemp(path.data(), O_CLOEXEC | (way.direct ? O_DIRECT : 0));
    if (file_ < 0 || ::unlink(path.c_str()) != 0 || ::ftruncate(file_, static_cast<off_t>(bytes)) != 0)
      throw UserError("cannot make a file in " + folder + ": " + std::strerror(errno));
    aligned_ = static_cast<char*>(std::aligned_alloc(kPage, kChunk * kDepth));
    if (way.uring && ::io_uring_queue_init(2 * kDepth, &ring_, 0) != 0)
      throw UserError("this system has no io_uring");
  }
  ~Store() {
    if (way_.uring) ::io_uring_queue_exit(&ring_);
    std::free(aligned_);
    ::close(file_);
  }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  void move(char* data, bool out) { way_.uring ? many_under_way(data, out) : one_by_one(data, out); }
  // So that the next read comes from the disk.
  void leave_cache() {
    ::fdatasync(file_);
    ::posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED);
  }

 private:
  void one_by_one(char* data, bool out) {
    for (std::size_t at = 0; at < bytes_; at += kChunk) {
      char* buffer = way_.direct ? aligned_ : data + at;
      if (way_.direct && out) std::memcpy(buffer, data + at, kChunk);
      const auto place = static_cast<off_t>(at);
      check(out ? ::pwrite(file_, buffer, kChunk, place) : ::pread(file_, buffer, kChunk, place));
      if (way_.direct && !out) std::memcpy(data + at, buffer, kChunk);
    }
  }

  void many_under_way(char* data, bool out) {
    std::vector<std::size_t> free_buffers, place(kDepth);
    for (std::size_t i = 0; i < kDepth; ++i) free_buffers.push_back(i);
    for (std::size_t next = 0; next < bytes_ || free_buffers.size() < kDepth;) {
      for (; next < bytes_ && !free_buffers.empty(); next += kChunk) {
        const std::size_t i = free_buffers.back();
        free_buffers.pop_back();
        place[i] = next;
        char* buffer = way_.direct ? aligned_ + i * kChunk : data + next;
        if (way_.direct && out) std::memcpy(buffer, data + next, kChunk);
        io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
        (out ? ::io_uring_prep_write(entry, file_, buffer, kChunk, next)
             : ::io_uring_prep_read(entry, file_, buffer, kChunk, next));
        entry->user_data = i;
      }
      ::io_uring_submit_and_wait(&ring_, 1);
      io_uring_cqe* done = nullptr;
      while (::io_uring_peek_cqe(&ring_, &done) == 0) {
        const std::size_t i = done->user_data;
        check(done->res);
        if (way_.direct && !out) std::memcpy(data + place[i], aligned_ + i * kChunk, kChunk);
        free_buffers.push_back(i);
        ::io_uring_cqe_seen(&ring_, done);
      }
    }
  }

  static void check(ssize_t moved) {
    if (moved != static_cast<ssize_t>(kChunk)) throw UserError("a read or write came short");
  }

  Way way_;
  std::size_t bytes_;
  int file_ = -1;
  char* aligned_ = nullptr;
  io_uring ring_ = {};
};

double seconds_of(const std::function<void()>& act) {
  const double begin = tessera::now_seconds();
  act();
  return tessera::now_seconds() - begin;
}

void compare(const std::string& folder, std::size_t bytes) {
  std::vector<char> data(bytes, 1);
  std::vector<std::vector<double>> out(std::size(kWays)), in(std::size(kWays));
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t w = 0; w < std::size(kWays); ++w) {
      Store store(folder, kWays[w], bytes);
      out[w].push_back(seconds_of([&] { store.move(data.data(), true), store.leave_cache(); }));
      in[w].push_back(seconds_of([&] { store.move(data.data(), false); }));
    }
  for (std::size_t w = 0; w < std::size(kWays); ++w) {
    const double gigabytes = static_cast<double>(bytes) / 1e9;
    std::printf("%-30s out to the disk %.2f GB/s (best %.2f)   in from the disk %.2f GB/s (best %.2f)\n",
                kWays[w].name, gigabytes / tessera::median(out[w]), gigabytes / std::ranges::min(out[w]),
                gigabytes / tessera::median(in[w]), gigabytes / std::ranges::min(in[w]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw UserError("offload_speed FOLDER [MIB]");
    const std::size_t mib = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 512;
    compare(argv[1], std::max(mib, kChunk >> 20) / (kChunk >> 20) * kChunk);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return tessera::exit_code(error);
  }
}
