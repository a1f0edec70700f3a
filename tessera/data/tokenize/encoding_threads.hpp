// Threads that encode batches, which come back in the order in which they were read.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tessera/data/tokenize/batch.hpp"

namespace tessera::data {

class EncodingThreads {
 public:
  // `read` gives the next batch, or nothing at the end; one thread calls it, never more than a few batches
  // ahead of what was taken.
  EncodingThreads(const TokenizeOptions& options, const tokenizer::Tokenizer& tokenizer,
                  std::function<std::optional<Batch>()> read);
  // Waits for what is under way; the rest is not read.
  ~EncodingThreads();
  EncodingThreads(const EncodingThreads&) = delete;
  EncodingThreads& operator=(const EncodingThreads&) = delete;

  // The next batch, encoded; nothing at the end. Throws what its reading or encoding threw.
  std::optional<Batch> take();

 private:
  struct Slot {
    Batch batch;
    bool is_begun = false, is_done = false;
  };
  void read_all(const std::function<std::optional<Batch>()>& read);
  void encode_all(tokenizer::Encoder& encoder);

  const TokenizeOptions& options_;
  const std::size_t most_;  // slots
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Slot>> slots_;  // in the order of reading
  bool is_read_ = false, is_stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera::data
