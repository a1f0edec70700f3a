#include <CLI/CLI.hpp>

#include "tessera/cli/ask/ask_commands.hpp"

namespace tessera::cli {
namespace {

CLI::App* add_ask(CLI::App& app, const char* name, const char* about, AskOptions& options,
                  int (*act)(const AskOptions&), const char* procs) {
  auto* command = app.add_subcommand(name, about);
  command
      ->add_option("folder", options.file,
                   "a checkpoint, the folder of a run, or one of Hugging Face with config.json")
      ->required();
  command
      ->add_option("--tokenizer", options.tokenizer,
                   "a tokenizer.json, a folder with one, a SentencePiece .model, or the word bytes (default: "
                   "that of the model)")
      ->type_name("FILE");
  command->add_option("--batch", options.batch, "texts side by side")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--procs", options.procs, procs)->check(CLI::Range(1, 4096))->type_name("N");
  command->add_flag("--json", options.json, "print one JSON object (docs/json.md)");
  command->add_flag_callback(
      "--follow-links", [&options] { options.links = Links::followed; },
      "links in a folder that is read may lead outside of it");
  command->callback([&options, act] { options.command = act; });
  return command;
}

void add_overrides(CLI::App* command, AskOptions& options) {
  command->add_option("overrides", options.overrides,
                      "section.key=value of a run file: layout.precision=bf16, model.sequence=2048, ...");
}

}  // namespace

void add_ask_commands(CLI::App& app, AskOptions& options) {
  auto* generate = add_ask(app, "generate", "continue a text with a model", options, generate_command,
                           "local ranks that share the model's products (layout.tp)");
  generate->add_option("prompt", options.prompt, "the text to continue");
  add_overrides(generate, options);
  generate->add_option("--prompts", options.prompts, "a file with a prompt on each line, instead of one")
      ->type_name("FILE");
  generate->add_flag("--chat", options.chat, "a conversation: what you type, and what the model answers");
  generate
      ->add_option("--chat-template", options.chat_template,
                   "a model's folder, a file of Jinja, chatml, llama3 or mistral (default: that of the "
                   "model)")
      ->type_name("FILE");
  generate->add_option("--tokens", options.tokens, "of an answer, at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  generate->add_option("--stop", options.stops, "a text that ends an answer; may be given again")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  generate
      ->add_option("--end", options.ends,
                   "a token that ends an answer, such as </s>; may be given again (default: the model's)")
      ->type_name("TOKEN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  generate::Sampling& sampling = options.sampling;
  generate->add_option("--temperature", sampling.temperature, "0: always the likeliest token")
      ->capture_default_str();
  generate->add_option("--top-k", sampling.top_k, "draw from the likeliest so many; 0: from all")
      ->capture_default_str();
  generate->add_option("--top-p", sampling.top_p, "draw from the likeliest that make up this share")
      ->capture_default_str();
  generate
      ->add_option("--min-p", sampling.min_p,
                   "draw from those at least so likely as this share of the likeliest")
      ->capture_default_str();
  generate
      ->add_option("--repetition-penalty", sampling.repetition_penalty,
                   "makes tokens that were there less likely, above 1")
      ->capture_default_str();
  generate->add_option("--seed", sampling.seed, "of what is drawn")->capture_default_str();

  auto* evaluate =
      add_ask(app, "evaluate", "say how well a model does on a text, or on questions with choices", options,
              evaluate_command, "local ranks that share the samples (layout.dp)");
  add_overrides(evaluate, options);
  evaluate
      ->add_option("--data", options.data,
                   "a pair of .bin and .idx without these endings, or a text that is read as bytes (default: "
                   "what the run held out)")
      ->type_name("NAME");
  evaluate
      ->add_option("--choices", options.questions,
                   "JSON lines: {\"context\": \"...\", \"choices\": [\"...\", ...], \"answer\": 0}")
      ->type_name("FILE");
  evaluate->add_option("--delimiter", options.delimiter, "between a context and a choice (default: a space)");
}

}  // namespace tessera::cli
