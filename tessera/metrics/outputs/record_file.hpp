// A file that grows by records, one for each step. What the disk refuses waits in memory and is tried again
// with the next record, so a disk that is full or fails ends no training, and records are lost only when it
// stays so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tessera::metrics {

// Steps, the first and the last.
struct StepRange {
  std::int64_t first = 0, last = 0;
};

struct RecordFileOptions {
  std::string path;
  std::string option;         // that names the place, for messages
  std::function<int()> open;  // a descriptor of the file, written from its end on; throws WriteError
  // A record in the place of those of these steps, which are lost; empty: there is no such record.
  std::function<std::string(StepRange)> mark = nullptr;
  std::size_t most_waiting_bytes = 16 << 20;  // older records are dropped beyond
};

class RecordFile {
 public:
  // Throws WriteError when the file can't be opened for a reason that doesn't pass.
  explicit RecordFile(RecordFileOptions options);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  // Visible to readers when this returns, if the disk allows.
  void add(std::int64_t step, std::string record);
  // Tries once more what waits; nothing may be added afterwards.
  void finish();
  // What to tell the user since the last call.
  std::vector<std::string> take_news();
  // What the file lacks, as a sentence; empty: nothing.
  std::string incomplete() const;

 private:
  struct Record {
    std::int64_t step;
    std::string bytes;
  };
  bool write_waiting();
  void open_if_need_be();
  void append(const std::string& bytes);
  void drop_oldest();

  RecordFileOptions options_;
  int file_ = -1;
  std::int64_t bytes_ = 0;  // whole records end there
  std::deque<Record> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::optional<StepRange> gap_;      // before what waits, not marked in the file yet
  std::optional<StepRange> missing_;  // all that is lost
  std::string cause_;                 // why it fails; empty: it does not
  std::vector<std::string> news_;
};

}  // namespace tessera::metrics
