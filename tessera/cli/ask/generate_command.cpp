#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/cli/ask/ask_commands.hpp"
#include "tessera/cli/ask/print_now.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/data/chat/chat_template.hpp"
#include "tessera/generate/generator.hpp"
#include "tessera/generate/opened_model.hpp"
#include "tessera/generate/stop_texts.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/train/session.hpp"

namespace tessera::cli {
namespace {

using tokenizer::Token;

constexpr std::int64_t kChatPositions = 4096;  // of a conversation, unless the model takes fewer

// What a model needs besides its weights.
struct Asked {
  const AskOptions& options;
  generate::OpenedModel opened;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  generate::GenerateOptions how;
};

Asked asked(const AskOptions& options) {
  Asked out{options, generate::open_model(options.file, options.links), nullptr, {}};
  out.tokenizer = generate::tokenizer_of(out.opened, options.tokenizer);
  out.how = {.sampling = options.sampling, .tokens = options.tokens, .ends = {}};
  generate::validate(options.sampling);
  for (const std::string& text : options.ends) {
    const auto token = out.tokenizer->token_of(text);
    if (!token) throw UserError(cat("--end ", text, ": the vocabulary has no such token"));
    out.how.ends.push_back(*token);
  }
  if (options.ends.empty()) out.how.ends = generate::end_tokens(out.opened, *out.tokenizer);
  for (const std::string& stop : options.stops)
    if (stop.empty()) throw UserError("--stop: an empty text stands everywhere");
  return out;
}

std::vector<std::string> prompts_of(const AskOptions& options) {
  if (options.prompts.empty()) return {options.prompt};
  std::ifstream file(options.prompts);
  if (!file) throw UserError(cat("--prompts ", options.prompts, ": cannot be read"));
  std::vector<std::string> out;
  for (std::string line; std::getline(file, line);) out.push_back(line);
  if (out.empty()) throw UserError(cat("--prompts ", options.prompts, ": has no lines"));
  return out;
}

std::vector<Token> encoded(const tokenizer::Tokenizer& tokenizer, const std::string& text, bool begins) {
  std::vector<Token> out = begins ? tokenizer.prefix() : std::vector<Token>();
  tokenizer.encoder()->encode(text, out);
  return out;
}

spec::Run run_of(const Asked& asked, std::int64_t positions) {
  const AskOptions& options = asked.options;
  std::vector<std::string> overrides = {cat("model.sequence=", positions)};
  if (options.procs > 1) overrides.push_back(cat("layout.tp=", options.procs));
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  const spec::Run run = generate::run_of(asked.opened, overrides);
  generate::expect_all_logits(run, "tokens are generated");
  return run;
}

// Decodes what is said, up to a stop text.
class Answer {
 public:
  Answer(const tokenizer::Tokenizer& tokenizer, const std::vector<std::string>& stops)
      : decoder_(tokenizer.decoder()), stops_(stops) {}

  // What is sure after this token.
  std::string push(Token token) { return kept(stops_.push(decoder_->push(token))); }
  std::string finish() {
    if (stops_.is_met()) return "";
    std::string out = stops_.push(decoder_->finish());
    if (!stops_.is_met()) out += stops_.finish();
    return kept(std::move(out));
  }
  bool goes_on() const { return !stops_.is_met(); }
  const std::string& text() const { return text_; }

 private:
  std::string kept(std::string more) {
    text_ += more;
    return more;
  }

  std::unique_ptr<tokenizer::Decoder> decoder_;
  generate::StopTexts stops_;
  std::string text_;
};

void tell_speed(std::int64_t tokens, double seconds) {
  std::fputs(cat(tokens, tokens == 1 ? " token in " : " tokens in ", duration_text(seconds), ", ",
                 fixed(static_cast<double>(tokens) / seconds, 1), " tokens/s\n")
                 .c_str(),
             stderr);
}

// Prompts in batches; on the first rank, what comes of them is printed: one prompt as it comes, of several
// each with its prompt.
void answer_prompts(const Asked& asked, train::Session& session, std::span<const std::string> texts,
                    std::span<const std::vector<Token>> prompts, bool prints) {
  const AskOptions& options = asked.options;
  const double start = now_seconds();
  const bool streams = prints && !options.json && prompts.size() == 1;
  std::int64_t tokens = 0;
  std::vector<metrics::Record> records;
  const auto batch = static_cast<std::size_t>(options.batch);
  for (std::size_t first = 0; first < prompts.size(); first += batch) {
    const auto some = prompts.subspan(first, std::min(batch, prompts.size() - first));
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < some.size(); ++i) answers.emplace_back(*asked.tokenizer, options.stops);
    const auto found = generate::continued(session, some, first, asked.how, [&](std::size_t i, Token token) {
      const std::string more = answers[i].push(token);
      if (streams) print_now(more);
      return answers[i].goes_on();
    });
    for (std::size_t i = 0; i < some.size(); ++i) {
      const bool stopped = !answers[i].goes_on();
      const std::string more = answers[i].finish();
      if (streams) print_now(more + "\n");
      if (prints && !streams && !options.json)
        print_now(cat(texts[first + i], answers[i].text(), first + i + 1 < prompts.size() ? "\n\n" : "\n"));
      tokens += std::ssize(found[i]);
      records.push_back({{"prompt", texts[first + i]},
                         {"text", answers[i].text()},
                         {"prompt_tokens", std::ssize(some[i])},
                         {"tokens", std::vector<std::int64_t>(found[i].begin(), found[i].end())},
                         {"ended_by", std::string(stopped                                 ? "stop"
                                                  : std::ssize(found[i]) < options.tokens ? "end"
                                                                                          : "length")}});
    }
  }
  if (!prints) return;
  const double seconds = now_seconds() - start;
  if (options.json)
    print_now(metrics::json_object(
                  metrics::Record{{"answers", records}, {"new_tokens", tokens}, {"seconds", seconds}}) +
              "\n");
  else
    tell_speed(tokens, seconds);
}

// A conversation on standard input and output; ends with the input.
void converse(const Asked& asked, train::Session& session, const std::string& template_path) {
  const data::ChatTemplate form = data::open_chat_template(template_path);
  data::Json messages = data::Json::array();
  const std::int64_t room = session.model().sequence;
  std::string line;
  for (;;) {
    print_now("> ");
    if (!std::getline(std::cin, line)) break;
    if (line.empty()) continue;
    messages.push_back({{"role", "user"}, {"content", line}});
    const std::vector<Token> prompt =
        encoded(*asked.tokenizer, form.render(messages, /*add_generation_prompt=*/true), false);
    generate::GenerateOptions how = asked.how;
    how.tokens = std::min(how.tokens, room - std::ssize(prompt));
    if (how.tokens <= 0)
      throw UserError(cat("the conversation has ", prompt.size(), " tokens, and the model takes ", room,
                          ". Begin a new one."));
    Answer answer(*asked.tokenizer, asked.options.stops);
    generate::continued(session, std::span(&prompt, 1), 0, how, [&](std::size_t, Token token) {
      print_now(answer.push(token));
      return answer.goes_on();
    });
    print_now(answer.finish() + "\n");
    messages.push_back({{"role", "assistant"}, {"content", answer.text()}});
  }
  print_now("\n");
}

std::string chat_template_of(const Asked& asked) {
  if (!asked.options.chat_template.empty()) return asked.options.chat_template;
  const std::string& files = asked.opened.files;
  for (const char* name : {"chat_template.jinja", "tokenizer_config.json"})
    if (!files.empty() && std::filesystem::exists(cat(files, "/", name))) return files;
  throw UserError(
      cat(asked.opened.folder,
          " has no chat template. Name one with --chat-template: a model's folder, a file of Jinja, "
          "chatml, llama3 or mistral."));
}

int chat(const Asked& asked) {
  const AskOptions& options = asked.options;
  if (options.procs > 1) throw UserError("--chat is for one process; leave --procs out");
  if (options.json) throw UserError("--chat is for people; leave --json out");
  const std::string path = chat_template_of(asked);
  const std::int64_t most = asked.opened.most_positions;
  const spec::Run run = run_of(asked, most > 0 ? std::min(most, kChatPositions) : kChatPositions);
  return job::on_ranks(run, options, [&](const job::Rank& rank) {
    converse(asked, *generate::session_of(asked.opened, run, rank.communicator, rank.log), path);
  });
}

}  // namespace

int generate_command(const AskOptions& given) {
  AskOptions options = given;
  const bool has_prompts = options.chat || !options.prompts.empty();
  if (has_prompts && options.prompt.find('=') != std::string::npos)
    options.overrides.insert(options.overrides.begin(), std::exchange(options.prompt, ""));
  if ((options.prompt.empty() ? 0 : 1) + (options.prompts.empty() ? 0 : 1) + (options.chat ? 1 : 0) != 1)
    throw UserError("name what to continue: a prompt, --prompts with a file, or --chat, one of them");
  const Asked what = asked(options);
  if (options.chat) return chat(what);
  const std::vector<std::string> texts = prompts_of(options);
  std::vector<std::vector<Token>> prompts;
  std::int64_t longest = 0, most = 0;
  for (const std::string& text : texts) {
    prompts.push_back(encoded(*what.tokenizer, text, /*begins=*/true));
    if (prompts.back().empty())
      throw UserError(
          cat("prompt ", prompts.size(), " is empty, and the tokenizer has no token to begin with"));
    longest = std::max<std::int64_t>(longest, std::ssize(prompts.back()));
    most = std::max<std::int64_t>(most, std::ranges::max(prompts.back()));
  }
  const spec::Run run = run_of(what, longest + options.tokens);
  if (most >= run.model.vocab)
    throw UserError(cat("the tokenizer makes token ", most, ", and the model knows ", run.model.vocab,
                        ": it is not the tokenizer of this model"));
  return job::on_ranks(run, options, [&](const job::Rank& rank) {
    const auto session = generate::session_of(what.opened, run, rank.communicator, rank.log);
    answer_prompts(what, *session, texts, prompts, rank.communicator.rank() == 0);
  });
}

}  // namespace tessera::cli
