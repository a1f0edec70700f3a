// Checks that any damage to a checkpoint is found before its tensors are used. Every bit of the manifest, of
// the files' headers and of their hashes is flipped, and so are random bits of the tensors; each file is
// removed, truncated and extended. Each damage must be found when the tensors are read, and name the file; a
// run must continue from the checkpoint before, and say so: in this process for a part of them, and in jobs
// of `tessera train`.
//   flips BINARY [payload bits] [jobs] [n] [seed]      from the root of the tree; n > 1: only every n-th bit
//                                                      outside of the tensors
// Exits with 1 when one was not found, not named, or the run continued from anything else.
#include <c10/core/ScalarType.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/train/resume.hpp"
#include "tests/crashes/job.hpp"

namespace {

using namespace tessera;
using namespace tessera::crashes;

constexpr int kSteps = 4, kNewest = 3;  // the run is struck after this step

// What is done to a file of the newest checkpoint.
struct Damage {
  std::string kind;
  std::string file;         // its name
  std::int64_t bit = -1;    // flipped
  std::int64_t bytes = -1;  // cut off, or filled up with zeros, to so many
  bool removed = false;
};

std::string to_text(const Damage& damage) {
  return cat(damage.kind, ", ", damage.file, ": ",
             damage.removed      ? "removed"
             : damage.bytes >= 0 ? cat("made ", damage.bytes, " bytes long")
                                 : cat("bit ", damage.bit, " flipped"));
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_bytes(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void flip(const fs::path& path, std::int64_t bit) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  unsigned char byte = 0;
  TESSERA_CHECK(pread(file, &byte, 1, bit / 8) == 1, path.string());
  byte = static_cast<unsigned char>(byte ^ (1u << bit % 8));
  TESSERA_CHECK(pwrite(file, &byte, 1, bit / 8) == 1, path.string());
  close(file);
}

void inflict(const Damage& damage, const fs::path& folder) {
  const fs::path path = folder / damage.file;
  if (damage.bit >= 0) flip(path, damage.bit);
  if (damage.bytes >= 0) fs::resize_file(path, static_cast<std::uintmax_t>(damage.bytes));
  if (damage.removed) fs::remove(path);
}

// Mended when this ends.
class Inflicted {
 public:
  Inflicted(const Damage& damage, const fs::path& folder) : damage_(damage), path_(folder / damage.file) {
    if (damage.bit < 0) whole_ = bytes_of(path_);
    inflict(damage, folder);
  }
  ~Inflicted() {
    if (damage_.bit >= 0)
      flip(path_, damage_.bit);
    else
      write_bytes(path_, whole_);
  }
  Inflicted(const Inflicted&) = delete;
  Inflicted& operator=(const Inflicted&) = delete;

 private:
  Damage damage_;
  fs::path path_;
  std::string whole_;
};

struct Tally {
  int tried = 0, found = 0, named = 0, resumed = 0, went_on = 0, jobs = 0, jobs_right = 0;
};

std::int64_t header_bytes(const fs::path& file) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes_of(file).data(), sizeof length);
  return static_cast<std::int64_t>(sizeof length + length);
}

std::vector<Damage> damages(const fs::path& folder, std::int64_t payload_bits, std::int64_t stride,
                            std::uint64_t seed) {
  std::vector<Damage> out;
  const auto add_bits = [&](const char* kind, const std::string& file, std::int64_t first, std::int64_t end) {
    for (std::int64_t bit = first; bit < end; bit += stride)
      out.push_back({.kind = kind, .file = file, .bit = bit});
  };
  std::vector<fs::path> shards;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const auto size = static_cast<std::int64_t>(entry.file_size());
    if (name == checkpoint::kManifestName) add_bits("manifest", name, 0, 8 * size);
    if (name.ends_with(checkpoint::kHashesSuffix)) add_bits("hashes", name, 0, 8 * size);
    if (name.ends_with(".safetensors")) {
      add_bits("header", name, 0, 8 * header_bytes(entry.path()));
      shards.push_back(entry.path());
    }
    out.push_back({.kind = "file removed", .file = name, .removed = true});
    for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{1}, size / 2, size - 1, size + 1})
      if (bytes != size) out.push_back({.kind = "another length", .file = name, .bytes = bytes});
  }
  for (std::int64_t i = 0; i < payload_bits; ++i) {
    const auto draw = [&](std::uint64_t index) {
      return random_bits(seed, static_cast<std::uint64_t>(i), index);
    };
    const fs::path& shard = shards[draw(0) % shards.size()];
    const std::int64_t first = header_bytes(shard), size = static_cast<std::int64_t>(fs::file_size(shard));
    const auto bits = static_cast<std::uint64_t>(8 * (size - first));
    out.push_back({.kind = "tensors",
                   .file = shard.filename().string(),
                   .bit = 8 * first + static_cast<std::int64_t>(draw(1) % bits)});
  }
  return out;
}

std::uint64_t state_hash(train::Session& session) {
  std::vector<std::uint64_t> hashes;
  for (const auto& bucket : session.buckets())
    for (const train::Kept& kept : session.kept(bucket))
      hashes.push_back(checkpoint::hash_of(
          {static_cast<const std::byte*>(kept.flat.const_data_ptr()), kept.flat.nbytes()}));
  return checkpoint::hash_of(std::as_bytes(std::span(hashes)));
}

// Goes on in this process; empty when it took the checkpoint before the damaged one, bit for bit, and said
// so.
std::string resume_problem(train::Session& session, const spec::Run& run, const std::string& checkpoints,
                           const Damage& damage, std::uint64_t hash_before) {
  const auto resumed = train::resume(session, run, {.folder = checkpoints});
  if (resumed.step != kNewest - 1) return cat("went on after step ", resumed.step);
  if (state_hash(session) != hash_before) return "the weights are not those of the checkpoint before";
  if (resumed.notes.size() != 2 || !resumed.notes[0].starts_with("warning: ") ||
      resumed.notes[0].find(damage.file) == std::string::npos)
    return cat("said: ", join(resumed.notes, "; "));
  return "";
}

void fill(const fs::path& undisturbed, const fs::path& checkpoints) {
  fs::remove_all(checkpoints);
  fs::create_directories(checkpoints);
  for (int step = 1; step <= kNewest; ++step) {
    const fs::path from = checkpoint::step_folder(undisturbed.string(), step).path;
    fs::copy(from, checkpoints / from.filename(), fs::copy_options::recursive);
  }
}

std::string job_problem(const std::string& binary, const fs::path& folder, const fs::path& undisturbed,
                        const Damage& damage, const Contents& contents) {
  const fs::path out = folder / "job";
  fill(undisturbed, checkpoints_of(out));
  inflict(damage, checkpoint::step_folder(checkpoints_of(out), kNewest).path);
  const Ended ended = run(training(binary, out, kSteps), folder / "log");
  if (ended.code != 0) return cat("ended with ", ended.code, ": ", ended.text);
  const bool says = ended.text.find("is not used") != std::string::npos &&
                    ended.text.find(damage.file) != std::string::npos &&
                    ended.text.find(cat("going on after step ", kNewest - 1)) != std::string::npos;
  if (!says) return cat("said: ", ended.text);
  return complaint_of([&] {
    for (const int step : {kNewest, kSteps})
      if (content_of(checkpoint::step_folder(checkpoints_of(out), step).path) != contents.at(step))
        throw UserError(cat("the checkpoint of step ", step, " is not the undisturbed run's"));
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::puts("usage: flips BINARY [payload bits] [jobs] [n] [seed]"), 2;
  const std::int64_t payload_bits = argc > 2 ? std::stoll(argv[2]) : 2000;
  const std::size_t num_jobs = argc > 3 ? std::stoul(argv[3]) : 24;
  const std::int64_t stride = argc > 4 ? std::stoll(argv[4]) : 1;
  const std::uint64_t seed = argc > 5 ? std::stoull(argv[5]) : 1;
  std::string made = (fs::temp_directory_path() / "flips_XXXXXX").string();
  TESSERA_CHECK(mkdtemp(made.data()), "no folder");
  const fs::path folder = made, undisturbed = checkpoints_of(folder / "undisturbed"),
                 struck = folder / "struck";
  const Ended whole =
      run(training(argv[1], folder / "undisturbed", kSteps, {"checkpoint.keep_last=0"}), folder / "log");
  TESSERA_CHECK(whole.code == 0, whole.text);
  const Contents contents = contents_of(undisturbed.string());
  fill(undisturbed, struck);
  const fs::path newest = checkpoint::step_folder(struck.string(), kNewest).path;
  const auto all = damages(newest, payload_bits, stride, seed);

  std::map<std::string, Tally> tallies;
  int wrong = 0;
  const auto expect = [&](const Damage& damage, const std::string& problem) {
    if (!problem.empty() && ++wrong <= 20) std::printf("%s: %s\n", to_text(damage).c_str(), problem.c_str());
    return problem.empty();
  };
  collective::run_ranks(1, [&](const collective::Communicator& communicator) {
    const auto run = spec::load(kRunFile, small_run(kSteps));
    train::Session session(train::session_plan(run), communicator, train::corpus_source(run.data, run.model));
    train::resume(
        session, run,
        {.folder = struck.string(), .from = checkpoint::step_folder(struck.string(), kNewest - 1).path});
    const std::uint64_t hash_before = state_hash(session);
    for (const Damage& damage : all) {
      Tally& tally = tallies[damage.kind];
      const Inflicted inflicted(damage, newest);
      const std::string complaint = complaint_of([&] { read_all(newest.string()); });
      const bool is_named = complaint.find(damage.file) != std::string::npos;
      ++tally.tried;
      tally.found += expect(damage, complaint.empty() ? "not found" : "");
      tally.named += expect(damage, complaint.empty() || is_named ? "" : cat("named as: ", complaint));
      // Of the many bits of headers and manifest, some.
      if ((damage.kind == "header" || damage.kind == "manifest") && tally.tried % 101 != 1) continue;
      ++tally.resumed;
      tally.went_on += expect(damage, resume_problem(session, run, struck.string(), damage, hash_before));
    }
  });
  for (std::size_t i = 0; i < num_jobs; ++i) {
    // Each kind in turn, somewhere in it.
    auto kind = std::next(tallies.begin(), static_cast<std::ptrdiff_t>(i % tallies.size()));
    std::vector<Damage> of_kind;
    for (const Damage& damage : all)
      if (damage.kind == kind->first) of_kind.push_back(damage);
    const Damage& damage = of_kind[random_bits(seed, stream_of("jobs"), i) % of_kind.size()];
    ++kind->second.jobs;
    kind->second.jobs_right += expect(damage, job_problem(argv[1], folder, undisturbed, damage, contents));
  }
  std::vector<std::vector<std::string>> rows{{"damage to", "tried", "found", "file named", "resumed",
                                              "from the one before", "jobs", "from the one before"}};
  for (const auto& [kind, t] : tallies)
    rows.push_back({kind, cat(t.tried), cat(t.found), cat(t.named), cat(t.resumed), cat(t.went_on),
                    cat(t.jobs), cat(t.jobs_right)});
  std::printf("%s%d wrong (seed %llu)\n", table(rows).c_str(), wrong, static_cast<unsigned long long>(seed));
  fs::remove_all(folder);
  return wrong == 0 ? 0 : 1;
}
