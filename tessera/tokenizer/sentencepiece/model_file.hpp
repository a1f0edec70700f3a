// The contents of a SentencePiece model file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::tokenizer::sentencepiece {

// U+2581, which stands for a space.
inline constexpr std::string_view kMark = "\u2581";

inline constexpr std::size_t kMostBytesOfPiece = 8000;

enum class PieceType : std::uint8_t { normal, unknown, control, user_defined, unused, byte };

struct Piece {
  std::string text;
  float score = 0;  // of a segmentation, which takes the best; always finite
  PieceType type = PieceType::normal;
};

enum class Algorithm { unigram, bpe, word, character };

// What is done to a text before it is segmented, or after it is decoded.
struct TextRules {
  std::string char_map;  // a precompiled charsmap, or empty
  bool adds_mark = true;
  bool mark_at_end = false;  // where the added mark stands
  bool removes_extra_spaces = true;
  bool escapes_spaces = true;  // spaces become marks
};

struct Model {
  std::vector<Piece> pieces;  // by token
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;  // unknown characters become the tokens of their bytes
  std::string unknown_text;    // what the unknown token is decoded to
  std::string begin_piece;     // the control piece before a text
  TextRules before;
  std::optional<TextRules> after;
};

// Throws UserError, which begins with `where`, if the content is not a model.
Model parse_model(std::string_view content, const std::string& where);

}  // namespace tessera::tokenizer::sentencepiece
