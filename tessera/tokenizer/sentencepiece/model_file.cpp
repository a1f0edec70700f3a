#include "tessera/tokenizer/sentencepiece/model_file.hpp"

#include <cmath>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/tokenizer/sentencepiece/model.pb.h"

namespace tessera::tokenizer::sentencepiece {
namespace {

PieceType type_of(format::Model::Piece::Type type) {
  switch (type) {
    case format::Model::Piece::NORMAL:
      return PieceType::normal;
    case format::Model::Piece::UNKNOWN:
      return PieceType::unknown;
    case format::Model::Piece::CONTROL:
      return PieceType::control;
    case format::Model::Piece::USER_DEFINED:
      return PieceType::user_defined;
    case format::Model::Piece::UNUSED:
      return PieceType::unused;
    case format::Model::Piece::BYTE:
      return PieceType::byte;
  }
  return PieceType::normal;
}

Algorithm algorithm_of(format::TrainerSpec::ModelType type) {
  switch (type) {
    case format::TrainerSpec::UNIGRAM:
      return Algorithm::unigram;
    case format::TrainerSpec::BPE:
      return Algorithm::bpe;
    case format::TrainerSpec::WORD:
      return Algorithm::word;
    case format::TrainerSpec::CHAR:
      return Algorithm::character;
  }
  return Algorithm::unigram;
}

TextRules rules_of(const format::NormalizerSpec& spec) {
  return {.char_map = spec.precompiled_charsmap(),
          .adds_mark = spec.add_dummy_prefix(),
          .removes_extra_spaces = spec.remove_extra_whitespaces(),
          .escapes_spaces = spec.escape_whitespaces()};
}

}  // namespace

Model parse_model(std::string_view content, const std::string& where) {
  format::Model file;
  const bool is_short = content.size() <= std::numeric_limits<int>::max();
  if (!is_short || !file.ParseFromArray(content.data(), static_cast<int>(content.size())))
    throw UserError(cat(where, ": is not a SentencePiece model"));
  Model out;
  for (const auto& piece : file.pieces()) {
    if (!std::isfinite(piece.score()))
      throw UserError(cat(where, ": piece ", out.pieces.size(), " has the score ", piece.score(),
                          "; scores are finite numbers"));
    out.pieces.push_back({.text = piece.piece(), .score = piece.score(), .type = type_of(piece.type())});
  }
  const format::TrainerSpec& trainer = file.trainer_spec();
  out.algorithm = algorithm_of(trainer.model_type());
  out.byte_fallback = trainer.byte_fallback();
  out.unknown_text = trainer.unk_surface();
  if (out.unknown_text.size() >= kMostBytesOfPiece)
    throw UserError(cat(where, ": its unk_surface has ", out.unknown_text.size(), " bytes; below ",
                        kMostBytesOfPiece, " are allowed"));
  out.begin_piece = trainer.bos_piece().empty() ? "<s>" : trainer.bos_piece();
  out.before = rules_of(file.normalizer_spec());
  out.before.mark_at_end = trainer.treat_whitespace_as_suffix();
  if (!file.denormalizer_spec().precompiled_charsmap().empty())
    out.after = rules_of(file.denormalizer_spec());
  return out;
}

}  // namespace tessera::tokenizer::sentencepiece
