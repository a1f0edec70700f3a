#include "tessera/train/source/tokens.hpp"

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/huggingface/tokenizer.hpp"

namespace tessera::train {

namespace {

void refuse(const std::string& what, const std::string& file) {
  throw UserError(cat(
      what, " has a tokenizer (", file,
      "), and data.path is read as bytes: each would be taken for the token of that number, which means "
      "something else to this model. Tokenize the text (tessera data tokenize) and name it in data.sources; "
      "data.bytes_as_tokens=true trains on bytes all the same."));
}

}  // namespace

void expect_no_tokenizer(const spec::Data& data, const spec::Model& model) {
  if (data.bytes_as_tokens || !data.sources.empty() || model.weights.empty()) return;
  if (const auto file = checkpoint::tokenizer_in(model.weights))
    refuse(cat("model.weights = ", model.weights), *file);
}

void expect_no_tokenizer(const spec::Data& data, const std::string& checkpoint) {
  if (data.bytes_as_tokens || !data.sources.empty()) return;
  if (const auto folder = checkpoint::tokenizer_folder(checkpoint))
    refuse(cat("the checkpoint ", checkpoint), *checkpoint::tokenizer_in(*folder));
}

}  // namespace tessera::train
