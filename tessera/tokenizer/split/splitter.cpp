#include "tessera/tokenizer/split/splitter.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace tessera::tokenizer {

namespace {

// So many matches at a time: what is done with one can overlap with what is done with the next.
constexpr std::size_t kBatch = 32;

struct Part {
  std::size_t begin = 0, end = 0;
  bool is_match = false;
};

std::vector<Part> parts_of(const Matcher& matcher, std::string_view text, bool inverted) {
  std::vector<Part> out;
  std::size_t at = 0;
  while (const Match match = matcher.find(text, at)) {
    if (match.begin > at) out.push_back({at, match.begin, inverted});
    out.push_back({match.begin, match.end, !inverted});
    at = match.end;
  }
  if (at < text.size()) out.push_back({at, text.size(), inverted});
  return out;
}

// A match goes to the part before it, unless that is a match itself.
std::vector<Part> merged_with_previous(const std::vector<Part>& parts) {
  std::vector<Part> out;
  bool after_match = false;
  for (const Part& part : parts) {
    if (part.is_match && !after_match && !out.empty())
      out.back().end = part.end;
    else
      out.push_back(part);
    after_match = part.is_match;
  }
  return out;
}

std::vector<Part> merged_with_next(const std::vector<Part>& parts) {
  std::vector<Part> out;
  bool before_match = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->is_match && !before_match && !out.empty())
      out.back().begin = part->begin;
    else
      out.push_back(*part);
    before_match = part->is_match;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Part> contiguous(const std::vector<Part>& parts) {
  std::vector<Part> out;
  for (const Part& part : parts) {
    if (!out.empty() && out.back().is_match == part.is_match)
      out.back().end = part.end;
    else
      out.push_back(part);
  }
  return out;
}

}  // namespace

Splitter::Splitter(std::unique_ptr<Matcher> matcher, SplitBehavior behavior, bool inverted)
    : matcher_(std::move(matcher)), behavior_(behavior), inverted_(inverted) {}

void Splitter::split_isolated(Piece piece, PieceSink& sink) const {
  std::array<Match, kBatch> matches;
  std::array<Piece, 2 * kBatch> pieces;
  std::size_t at = 0;
  for (bool is_done = false; !is_done;) {
    const std::size_t count = matcher_->find_some(piece.text, at, matches);
    is_done = count < kBatch;
    std::size_t num_pieces = 0;
    const auto add = [&](std::size_t begin, std::size_t end) {
      pieces[num_pieces++] = {std::string_view(piece.text.data() + begin, end - begin),
                              piece.is_first && begin == 0};
    };
    for (std::size_t i = 0; i < count; ++i) {
      if (matches[i].begin > at) add(at, matches[i].begin);
      add(matches[i].begin, matches[i].end);
      at = matches[i].end;
    }
    sink.take_all(std::span(pieces).first(num_pieces));
  }
  if (at < piece.text.size()) sink.take({piece.text.substr(at), piece.is_first && at == 0});
}

void Splitter::split(Piece piece, PieceSink& sink) const {
  const auto give = [&](std::size_t begin, std::size_t end) {
    sink.take({piece.text.substr(begin, end - begin), piece.is_first && begin == 0});
  };
  if (behavior_ == SplitBehavior::isolated) return split_isolated(piece, sink);
  std::vector<Part> parts = parts_of(*matcher_, piece.text, inverted_);
  if (behavior_ == SplitBehavior::removed)
    std::erase_if(parts, [](const Part& part) { return part.is_match; });
  if (behavior_ == SplitBehavior::merged_with_previous) parts = merged_with_previous(parts);
  if (behavior_ == SplitBehavior::merged_with_next) parts = merged_with_next(parts);
  if (behavior_ == SplitBehavior::contiguous) parts = contiguous(parts);
  for (const Part& part : parts) give(part.begin, part.end);
}

}  // namespace tessera::tokenizer
