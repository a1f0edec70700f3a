#include <CLI/CLI.hpp>

#include "tessera/cli/data/data_commands.hpp"

namespace tessera::cli {
namespace {

using Command = int (*)(const DataOptions&, std::ostream&);

CLI::App* add_one(CLI::App& parent, const char* name, const char* about, DataOptions& options, Command act,
                  const char* names) {
  auto* command = parent.add_subcommand(name, about);
  command->add_option("names", options.names, names)->required();
  command->add_flag("--json", options.json, "print one JSON object (docs/json.md)");
  command->callback([&options, act] { options.command = act; });
  return command;
}

void add_tokenize(CLI::App& parent, DataOptions& options) {
  auto* command =
      add_one(parent, "tokenize", "text or JSON lines to a pair of .bin and .idx; goes on if stopped",
              options, data_tokenize_command, "files: text or JSON lines, plain, .gz or .zst");
  command->add_option("-o,--out", options.output, "name of the pair, without .bin and .idx")->required();
  command
      ->add_option("--tokenizer", options.tokenizer,
                   "a tokenizer.json, a folder with one, a .model file, or bytes")
      ->required();
  command->add_option("--format", options.format, "auto: by the names of the files, .jsonl or .json is json")
      ->check(CLI::IsMember({"auto", "json", "text"}));
  command
      ->add_option(
          "--records", options.records,
          "what JSON objects hold: one text; prompt and completion; messages of a conversation. Of the last "
          "two only answers count in the loss")
      ->check(CLI::IsMember({"text", "completion", "messages"}));
  command->add_option("--field", options.field, "of the JSON objects, that holds the text");
  command->add_option("--documents-end", options.documents_end, "where a document of plain text ends")
      ->check(CLI::IsMember({"line", "blank-line", "file"}));
  command
      ->add_option("--chat-template", options.chat_template,
                   "with --records messages: a model's folder, a file of Jinja, chatml, llama3 or mistral")
      ->type_name("FILE");
  command->add_option("--append", options.end_of_document, "a token that ends every document, such as </s>")
      ->type_name("TOKEN");
  command->add_option("--threads", options.threads, "that encode (default: as many as there are cores)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--skip-broken", options.skip_broken, "leave out records that can't be read");
}

}  // namespace

void add_data_commands(CLI::App& app, DataOptions& options) {
  auto* parent = app.add_subcommand("data", "make, look at, check and join tokenized data");
  parent->require_subcommand(1);
  add_tokenize(*parent, options);
  add_one(*parent, "inspect", "what a pair holds: documents, tokens, how long they are", options,
          data_inspect_command, "pairs, without .bin and .idx")
      ->add_option("--sequence", options.sequence, "say also how many samples of so many tokens it makes")
      ->check(CLI::Range(1, 1 << 24));
  add_one(*parent, "verify", "read every entry of the index and every token", options, data_verify_command,
          "pairs")
      ->add_option("--vocabulary", options.vocabulary, "tokens must be below this")
      ->check(CLI::PositiveNumber);
  add_one(*parent, "merge", "join pairs into one", options, data_merge_command, "pairs")
      ->add_option("-o,--out", options.output, "name of the new pair")
      ->required();
  auto* sample =
      add_one(*parent, "sample", "print some documents as text", options, data_sample_command, "a pair");
  sample->add_option("--tokenizer", options.tokenizer, "that the pair was made with")->required();
  sample->add_option("--count", options.count, "how many")->check(CLI::Range(1, 1000));
  sample->add_option("--seed", options.seed, "which ones");
}

}  // namespace tessera::cli
