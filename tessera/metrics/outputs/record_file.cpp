#include "tessera/metrics/outputs/record_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "tessera/metrics/out_file.hpp"

namespace tessera::metrics {

namespace {

constexpr int kLastAttempts = 3;

std::string steps_text(const StepRange& range) {
  return range.first == range.last ? cat("step ", range.first)
                                   : cat("steps ", range.first, " to ", range.last);
}

void widen(std::optional<StepRange>& range, std::int64_t step) {
  if (!range) range = {step, step};
  range->first = std::min(range->first, step);
  range->last = std::max(range->last, step);
}

}  // namespace

RecordFile::RecordFile(RecordFileOptions options) : options_(std::move(options)) {
  try {
    open_if_need_be();
  } catch (const WriteError& error) {
    if (!error.passes()) throw;
    write_waiting();
  }
}

RecordFile::~RecordFile() {
  if (file_ >= 0) ::close(file_);
}

void RecordFile::add(std::int64_t step, std::string record) {
  waiting_bytes_ += record.size();
  waiting_.push_back({step, std::move(record)});
  write_waiting();
  while (waiting_bytes_ > options_.most_waiting_bytes && waiting_.size() > 1) drop_oldest();
}

void RecordFile::drop_oldest() {
  widen(gap_, waiting_.front().step);
  widen(missing_, waiting_.front().step);
  waiting_bytes_ -= waiting_.front().bytes.size();
  waiting_.pop_front();
}

void RecordFile::open_if_need_be() {
  if (file_ >= 0) return;
  const int file = options_.open();
  struct stat facts {};
  if (::fstat(file, &facts) != 0) {
    const int reason = errno;
    ::close(file);
    throw WriteError("open", options_.path, reason, options_.option);
  }
  file_ = file;
  bytes_ = facts.st_size;
}

// At the end of the last whole record: what an earlier attempt wrote of this one is written over.
void RecordFile::append(const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n =
        ::pwrite(file_, bytes.data() + done, bytes.size() - done, bytes_ + static_cast<std::int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int reason = errno;
      if (done > 0) std::ignore = ::ftruncate(file_, bytes_);  // readers need not see half of it
      throw WriteError("write to", options_.path, reason, options_.option);
    }
    done += static_cast<std::size_t>(n);
  }
  bytes_ += static_cast<std::int64_t>(bytes.size());
}

bool RecordFile::write_waiting() {
  try {
    open_if_need_be();
    if (gap_ && options_.mark) append(options_.mark(*gap_));
    gap_.reset();
    for (; !waiting_.empty(); waiting_.pop_front()) {
      append(waiting_.front().bytes);
      waiting_bytes_ -= waiting_.front().bytes.size();
    }
  } catch (const WriteError& error) {
    if (cause_.empty())
      news_.push_back(cat("warning: ", error.cause(),
                          ". Training goes on; what is missing there is tried again after each step."));
    cause_ = error.cause();
    return false;
  }
  if (!cause_.empty())
    news_.push_back(cat("'", options_.path, "' is written again; ",
                        missing_ ? cat("it lacks ", steps_text(*missing_)) : "nothing is missing"));
  cause_.clear();
  return true;
}

void RecordFile::finish() {
  bool written = false;
  for (int i = 0; i < kLastAttempts && !written; ++i) written = write_waiting();
  while (!waiting_.empty()) drop_oldest();
  if (const std::string lack = incomplete(); !lack.empty())
    news_.push_back(cat("warning: ", lack, cause_.empty() ? "" : cat(" (", cause_, ")")));
}

std::vector<std::string> RecordFile::take_news() { return std::exchange(news_, {}); }

std::string RecordFile::incomplete() const {
  return missing_ ? cat("'", options_.path, "' is incomplete: it lacks ", steps_text(*missing_)) : "";
}

}  // namespace tessera::metrics
