#include "tessera/metrics/outputs/json_lines.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <tuple>

#include "tessera/base/files/replace_file.hpp"
#include "tessera/metrics/out_file.hpp"

namespace tessera::metrics {

namespace {

// Note [History]
// A run that goes on after step n makes steps n + 1 and so on once more, and the file shall have one line for
// a step. What is there of them is first added to another file and synced; then the lines that stay are
// written beside the file and renamed into its place. A kill between any two calls leaves every line in one
// of the two. A file of which nothing goes, and which has no other name, is appended to as it is; one that
// has (a copy made of hard links) is not: that would change the copy.

constexpr char kLinesOption[] = "--out";

// What is at a path; nothing if there is no such file. Throws WriteError.
struct Content {
  std::string text;
  bool has_other_names = false;
};
std::optional<Content> content_of(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 && errno == ENOENT) return std::nullopt;
  if (file < 0) throw WriteError("open", path, errno, kLinesOption);
  Content out;
  struct stat facts {};
  int reason = ::fstat(file, &facts) != 0 ? errno : S_ISREG(facts.st_mode) ? 0 : EINVAL;
  out.has_other_names = facts.st_nlink > 1;
  char buffer[1 << 16];
  while (reason == 0) {
    const ssize_t n = ::read(file, buffer, sizeof buffer);
    if (n == 0) break;
    if (n < 0) reason = errno;
    if (n > 0) out.text.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(file);
  if (reason != 0) throw WriteError("read", path, reason, kLinesOption);
  return out;
}

void replace(const std::string& path, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  if (const int reason = try_replace_file(path, std::span(&bytes, 1)); reason != 0)
    throw WriteError("write to", path, reason, kLinesOption);
}

// Added to the end of a file, and synced. After an error the file is as it was.
void add_lines(const std::string& path, const std::string& lines) {
  const auto before = content_of(path);
  if (before && before->has_other_names) return replace(path, before->text + lines);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file < 0) throw WriteError("open", path, errno, kLinesOption);
  const auto end = static_cast<off_t>(before ? before->text.size() : 0);
  int reason = 0;
  for (std::size_t done = 0; done < lines.size() && reason == 0;) {
    const ssize_t n =
        ::pwrite(file, lines.data() + done, lines.size() - done, end + static_cast<off_t>(done));
    if (n < 0 && errno != EINTR) reason = errno;
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  if (reason == 0 && ::fsync(file) != 0) reason = errno;
  if (reason != 0) std::ignore = ::ftruncate(file, end);
  ::close(file);
  if (reason != 0) throw WriteError("write to", path, reason, kLinesOption);
}

// Of a line that record_of() made; 0 for any other.
std::int64_t step_of(std::string_view line) {
  constexpr std::string_view kKey = "\"step\":";
  const std::size_t at = line.find(kKey);
  if (at == std::string_view::npos) return 0;
  const char* digits = line.data() + at + kKey.size();
  while (digits < line.data() + line.size() && *digits == ' ') ++digits;
  std::int64_t step = 0;
  std::from_chars(digits, line.data() + line.size(), step);
  return step;
}

struct Parted {
  std::string kept, superseded;
};

// A last line that was cut off goes; one that only lacks its end of line gets it.
Parted parted(std::string text, std::int64_t kept_steps) {
  if (text.ends_with('}')) text += '\n';
  Parted out;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto line = std::string_view(text).substr(begin, end + 1 - begin);
    const std::int64_t step = step_of(line);
    (step > 0 && step <= kept_steps ? out.kept : out.superseded) += line;
  }
  return out;
}

// Opens the file with the lines that stay, by Note [History]. Called again after it has failed.
class Opening {
 public:
  Opening(std::string path, std::int64_t kept_steps) : path_(std::move(path)), kept_steps_(kept_steps) {}

  int operator()() {
    remove_unfinished();
    const Content content = content_of(path_).value_or(Content());
    const Parted lines = parted(content.text, kept_steps_);
    if (!lines.superseded.empty() && !is_superseded_kept_) {
      add_lines(superseded_path(path_), lines.superseded);
      is_superseded_kept_ = true;
    }
    if (lines.kept != content.text || content.has_other_names) replace(path_, lines.kept);
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) throw WriteError("open", path_, errno, kLinesOption);
    return file;
  }

 private:
  // What a kill left beside the file.
  void remove_unfinished() const {
    const std::filesystem::path own(path_);
    std::error_code error;
    std::vector<std::filesystem::path> left;
    for (auto entry = std::filesystem::directory_iterator(own.parent_path(), error);
         !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
      if (entry->path().filename().string().starts_with(own.filename().string() + kBesideSuffix))
        left.push_back(entry->path());
    for (const auto& path : left) std::filesystem::remove(path, error);
  }

  std::string path_;
  std::int64_t kept_steps_;
  bool is_superseded_kept_ = false;
};

std::string mark(StepRange lost) {
  return json_object(Record{{"step", lost.last}, {"missing_from", lost.first}}) + '\n';
}

}  // namespace

JsonLines::JsonLines(const std::string& path, std::int64_t kept_steps)
    : file_({.path = path, .option = kLinesOption, .open = Opening(path, kept_steps), .mark = mark}) {}

std::string superseded_path(const std::string& path) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / cat(whole.stem().string(), ".superseded", whole.extension().string()))
      .string();
}

}  // namespace tessera::metrics
