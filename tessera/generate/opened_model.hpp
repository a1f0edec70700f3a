// A model to be asked: what a folder says of it.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/files/folder_file.hpp"
#include "tessera/spec/spec.hpp"
#include "tessera/tokenizer/tokenizer.hpp"
#include "tessera/train/session.hpp"

namespace tessera::generate {

struct OpenedModel {
  std::string folder;            // as it was named
  spec::Run run;                 // its model; for one that was trained here also its data; on one rank
  std::string checkpoint;        // that holds its weights; empty: run.model.weights does
  std::string files;             // the folder of its tokenizer and other files of Hugging Face; empty: none
  Links links = Links::refused;  // in the folder
  std::int64_t most_positions = 0;  // that it can take; 0: any number
};

// Of a checkpoint, of the newest in the folder of a run, or of a folder of Hugging Face. Throws UserError
// when it is none of them.
OpenedModel open_model(const std::string& folder, Links links);

// The opened run with section.key=value over it, for so many positions, validated for this build.
spec::Run run_of(const OpenedModel& opened, const std::vector<std::string>& overrides);

// A session of such a run that has the model's weights. All ranks call it.
std::unique_ptr<train::Session> session_of(const OpenedModel& opened, const spec::Run& run,
                                           const collective::Communicator& communicator, ActivityLog* log);

// Throws UserError, which begins with `what`, unless each rank of the run has all logits: one, or several
// that share products alone.
void expect_all_logits(const spec::Run& run, const std::string& what);

// The tokenizer that was named, else that of the model's files or of its data; "bytes" for a model that was
// trained on them; empty when there is none.
std::string tokenizer_name(const OpenedModel& opened, const std::string& named);
// The same, opened. Throws UserError when there is none.
std::unique_ptr<tokenizer::Tokenizer> tokenizer_of(const OpenedModel& opened, const std::string& named);

// The tokens that end a text: those of generation_config.json or config.json, else <|endoftext|> if the
// tokenizer has it.
std::vector<tokenizer::Token> end_tokens(const OpenedModel& opened, const tokenizer::Tokenizer& tokenizer);

}  // namespace tessera::generate
