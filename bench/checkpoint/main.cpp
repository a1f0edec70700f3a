// Measures what writing a checkpoint costs compared with a bare write of the same bytes, how much memory
// rewriting one takes, and how long it takes to read the header of a file with many tensors.
//   checkpoint_speed write FOLDER [MIB ROUNDS]     alternately: write + fsync; the same with early writeback;
//                                                  a file of a checkpoint, with its hashes
//   checkpoint_speed reshard FOLDER TESSERA [GIB]  `tessera checkpoint reshard` from 8 shards to 3: memory,
//                                                  speed
//   checkpoint_speed headers FOLDER [TENSORS]      opens files of 10^4, 10^5, ... TENSORS (10^6) tensors
// FOLDER is created and removed.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/random.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"
#include "tessera/checkpoint/format/shard_file.hpp"
#include "tessera/checkpoint/tools/diff.hpp"

namespace {

using namespace tessera;
namespace fs = std::filesystem;

constexpr std::size_t kWriteBytes = std::size_t{8} << 20;  // of one call of the bare write

// Bytes that no disk can shorten.
std::vector<std::byte> random_bytes(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> out(bytes);
  auto* halves = reinterpret_cast<std::uint16_t*>(out.data());
  random_halves(seed, {}, {halves, bytes / 2});
  return out;
}

double seconds_of(const auto& act) {
  const double start = now_seconds();
  act();
  return now_seconds() - start;
}

// `early`: the disk is told to begin while more is written, as FileWriter does.
void bare_write(const std::string& path, std::span<const std::byte> bytes, bool early) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(file, bytes.data() + at, std::min(kWriteBytes, bytes.size() - at));
    if (n < 0) throw UserError(cat("cannot write ", path, ": ", std::strerror(errno)));
    if (early) ::sync_file_range(file, static_cast<off_t>(at), n, SYNC_FILE_RANGE_WRITE);
    at += static_cast<std::size_t>(n);
  }
  if (::fsync(file) != 0 || ::close(file) != 0)
    throw UserError(cat("cannot sync ", path, ": ", std::strerror(errno)));
}

// Nothing of the last write is still on its way to the disk.
void rest(const std::string& path) {
  fs::remove(path);
  fs::remove(path + checkpoint::kHashesSuffix);
  ::sync();
}

void measure_writing(const std::string& folder, std::size_t mib, int rounds) {
  const auto bytes = random_bytes(mib << 20, 1);
  const std::string path = folder + "/file";
  const std::function<void()> ways[] = {[&] { bare_write(path, bytes, false); },
                                        [&] { bare_write(path, bytes, true); },
                                        [&] {
                                          checkpoint::FileWriter writer(folder, "file");
                                          writer.append(bytes);
                                          writer.finish();
                                        }};
  std::vector<double> rates[3], ratios[2];
  for (int round = 0; round < rounds; ++round) {
    for (int turn = 0; turn < 3; ++turn) {
      const int way = (turn + round) % 3;
      rates[way].push_back(static_cast<double>(mib) / seconds_of(ways[way]));
      rest(path);
    }
    for (int way = 0; way < 2; ++way) ratios[way].push_back(rates[2].back() / rates[way].back());
    std::printf("round %d, MiB/s: bare %.0f, bare told early %.0f, checkpoint file %.0f\n", round + 1,
                rates[0].back(), rates[1].back(), rates[2].back());
    std::fflush(stdout);
  }
  std::printf(
      "medians of %d rounds of %zu MiB: bare %.0f, bare told early %.0f, checkpoint file %.0f MiB/s\n",
      rounds, mib, median(rates[0]), median(rates[1]), median(rates[2]));
  const char* names[] = {"bare", "bare told early"};
  for (int way = 0; way < 2; ++way)
    std::printf("checkpoint file over %s: %.2f (quartiles %.2f, %.2f)\n", names[way], median(ratios[way]),
                quantile(ratios[way], 0.25), quantile(ratios[way], 0.75));
}

// Of eight ranks, each holding an eighth of every tensor's elements, cut inside rows: a model and its AdamW
// state.
void make_checkpoint(const std::string& folder, std::int64_t gib) {
  constexpr std::int64_t kRanks = 8, kColumns = 4099;
  constexpr std::int64_t kTensors = 48;
  const std::int64_t rows = (gib << 30) / kTensors / 4 / kColumns;
  const Shape shape = {rows, kColumns};
  const checkpoint::Save save{folder, 1, checkpoint::new_save_id()};
  checkpoint::begin_save(save);
  for (std::int64_t rank = 0; rank < kRanks; ++rank) {
    const std::int64_t all = rows * kColumns, first = all * rank / kRanks, end = all * (rank + 1) / kRanks;
    std::vector<checkpoint::HeldPiece> held;
    for (std::int64_t tensor = 0; tensor < kTensors; ++tensor) {
      const char* kind = tensor % 3 == 0   ? ""
                         : tensor % 3 == 1 ? "optimizer.exp_avg."
                                           : "optimizer.exp_avg_sq.";
      for (const Box& box : boxes_of_range(shape, first, end - first))
        held.push_back({cat(kind, "model.layers.", tensor / 3, ".weight"), "F32", shape, box, {}});
    }
    checkpoint::Manifest part{.written_by = "checkpoint_speed"};
    checkpoint::ShardWriter writer(checkpoint::saving_path(save), rank, held);
    for (std::size_t i = 0; i < held.size(); ++i)
      writer.append(random_bytes(static_cast<std::size_t>(held[i].box.elements() * 4),
                                 static_cast<std::uint64_t>(rank) * 1000 + i));
    writer.finish(part);
    checkpoint::write_part(checkpoint::saving_path(save), rank, part);
  }
  checkpoint::commit_save(save, kRanks);
}

// The number after a word in /proc/<pid>/status, in KiB.
std::int64_t status_kib(pid_t pid, const std::string& word) {
  const std::string text = file_text(cat("/proc/", pid, "/status"));
  const auto at = text.find(word + ":");
  return at == text.npos ? 0 : std::atoll(text.c_str() + at + word.size() + 1);
}

struct Watched {
  int code = 0;
  std::int64_t anonymous_kib = 0, resident_kib = 0;  // most
  double seconds = 0;
};

// Starts it and asks every 2 ms what it holds.
Watched watch(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  Watched out;
  const double start = now_seconds();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  while (::wait4(pid, &status, WNOHANG, &usage) == 0) {
    out.anonymous_kib = std::max(out.anonymous_kib, status_kib(pid, "RssAnon"));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  out.seconds = now_seconds() - start;
  out.resident_kib = usage.ru_maxrss;
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return out;
}

void measure_resharding(const std::string& folder, const std::string& binary, std::int64_t gib) {
  make_checkpoint(folder, gib);
  const std::string from = checkpoint::step_folder(folder, 1).path, to = folder + "/three";
  ::sync();
  const Watched seen = watch({binary, "checkpoint", "reshard", from, to, "--ranks", "3"});
  if (seen.code != 0) throw UserError(cat(binary, " ended with ", seen.code));
  std::printf(
      "anonymous memory at most %.1f MiB (polled), resident at most %.1f MiB; %.1f s, %.0f MiB/s read and "
      "written\n",
      static_cast<double>(seen.anonymous_kib) / 1024, static_cast<double>(seen.resident_kib) / 1024,
      seen.seconds, static_cast<double>(gib << 10) / seen.seconds);
  checkpoint::Checkpoint first(from), second(to);
  const auto found = checkpoint::diff(first, second);
  std::printf("%zu files -> %zu files; %s\n", first.manifest().files.size(), second.manifest().files.size(),
              found.equal() ? "equal bit by bit" : "DIFFERENT");
}

std::string header_of(std::int64_t num_tensors) {
  std::string out = "{";
  for (std::int64_t i = 0; i < num_tensors; ++i)
    out += cat(i == 0 ? "" : ",", "\"t", i, "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[", i, ",",
               i + 1, "]}");
  return out + "}";
}

void measure_headers(const std::string& folder, std::int64_t most) {
  std::printf("%10s %14s %10s %18s\n", "tensors", "header bytes", "seconds", "us per tensor");
  for (std::int64_t count = 10'000; count <= most; count *= 10) {
    const std::string header = header_of(count), path = cat(folder, "/", count, ".safetensors");
    const std::uint64_t length = header.size();
    const std::vector<std::byte> data(static_cast<std::size_t>(count));
    std::vector<std::byte> file;
    for (const auto part :
         {std::as_bytes(std::span(&length, 1)), std::as_bytes(std::span(header)), std::span(data)})
      file.insert(file.end(), part.begin(), part.end());
    bare_write(path, file, false);
    const double seconds = seconds_of([&] {
      const checkpoint::Safetensors opened(path);
      if (std::ssize(opened.tensors()) != count) throw UserError(cat(path, " lost tensors"));
    });
    std::printf("%10lld %14llu %10.3f %18.2f\n", static_cast<long long>(count),
                static_cast<unsigned long long>(length), seconds, seconds / static_cast<double>(count) * 1e6);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool writes = words.size() >= 2 && words[0] == "write";
  const bool reads = words.size() >= 2 && words[0] == "headers";
  if (!writes && !reads && !(words.size() >= 3 && words[0] == "reshard")) {
    std::fputs(
        "checkpoint_speed write FOLDER [MIB ROUNDS] | reshard FOLDER TESSERA [GIB] | headers FOLDER "
        "[TENSORS]\n",
        stderr);
    return kExitUserError;
  }
  try {
    if (!fs::create_directory(words[1])) throw UserError(cat(words[1], " exists"));
    if (writes)
      measure_writing(words[1], words.size() > 2 ? std::stoul(words[2]) : 1024,
                      words.size() > 3 ? std::stoi(words[3]) : 7);
    else if (reads)
      measure_headers(words[1], words.size() > 2 ? std::stol(words[2]) : 1'000'000);
    else
      measure_resharding(words[1], words[2], words.size() > 3 ? std::stol(words[3]) : 4);
    fs::remove_all(words[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "checkpoint_speed: %s\n", error.what());
    return exit_code(error);
  }
}
