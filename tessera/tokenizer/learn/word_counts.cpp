#include "tessera/tokenizer/learn/word_counts.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "tessera/base/files/mapped_file.hpp"
#include "tessera/tokenizer/bpe/bpe.hpp"
#include "tessera/tokenizer/split/splitter.hpp"
#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer {

namespace {

constexpr std::size_t kPartBytes = 1 << 20;

using Counts = std::unordered_map<std::string, std::uint64_t, StringHash, std::equal_to<>>;

class CountingSink final : public PieceSink {
 public:
  void take(Piece piece) override {
    const auto found = counts.find(piece.text);
    if (found != counts.end())
      ++found->second;
    else
      counts.emplace(piece.text, 1);
  }
  Counts counts;
};

// Cut behind the ends of lines.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    std::size_t end = text.size();
    if (text.size() > kPartBytes) {
      const std::size_t line = text.find('\n', kPartBytes);
      if (line != std::string_view::npos) end = line + 1;
    }
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace

std::vector<WordCount> count_words(const std::vector<std::string>& paths, const CountOptions& options) {
  std::vector<std::unique_ptr<MappedFile>> files;
  std::vector<std::string_view> parts;
  std::uint64_t all = 0, done = 0;
  for (const std::string& path : paths) {
    files.push_back(std::make_unique<MappedFile>(path));
    all += files.back()->bytes().size();
    for (const auto part : parts_of(files.back()->text())) parts.push_back(part);
  }
  const Splitter splitter(make_matcher(options.pattern), SplitBehavior::isolated, false);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  Counts total;
  std::exception_ptr failure;
  const auto work = [&] {
    CountingSink sink;
    try {
      for (std::size_t part; (part = next++) < parts.size();) {
        splitter.split({repaired(parts[part]), false}, sink);
        const std::scoped_lock lock(mutex);
        done += parts[part].size();
        if (options.progress) options.progress(done, all);
      }
      const std::scoped_lock lock(mutex);
      for (const auto& [word, count] : sink.counts) total[word] += count;
    } catch (...) {
      const std::scoped_lock lock(mutex);
      failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < options.threads; ++i) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  std::vector<WordCount> out;
  out.reserve(total.size());
  for (const auto& [word, count] : total) out.push_back({word, count});
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.word < b.word; });
  return out;
}

}  // namespace tessera::tokenizer
