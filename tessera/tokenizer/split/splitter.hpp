// Cuts a text into pieces around the matches in it.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "tessera/tokenizer/split/matcher.hpp"

namespace tessera::tokenizer {

// A part of a text on its way to the model.
struct Piece {
  std::string_view text;
  bool is_first = false;  // the text that is encoded begins with it
};

class PieceSink {
 public:
  virtual ~PieceSink() = default;
  // Never an empty one.
  virtual void take(Piece piece) = 0;
  // One after the other.
  virtual void take_all(std::span<const Piece> pieces) {
    for (const Piece& piece : pieces) take(piece);
  }
};

// What becomes of a match.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

class Splitter {
 public:
  // If `inverted`, what lies between matches counts as the matches.
  Splitter(std::unique_ptr<Matcher> matcher, SplitBehavior behavior, bool inverted);

  void split(Piece piece, PieceSink& sink) const;

 private:
  void split_isolated(Piece piece, PieceSink& sink) const;

  std::unique_ptr<Matcher> matcher_;
  SplitBehavior behavior_;
  bool inverted_;
};

}  // namespace tessera::tokenizer
