#include "tessera/cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/number.hpp"
#include "tessera/base/text.hpp"
#include "tessera/base/version.hpp"
#include "tessera/cli/ask/ask_commands.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/cli/completion.hpp"
#include "tessera/cli/data/data_commands.hpp"
#include "tessera/cli/draw/draw_commands.hpp"
#include "tessera/cli/plan/automatic.hpp"
#include "tessera/cli/plan/plan_commands.hpp"
#include "tessera/cli/tokenizer/tokenizer_commands.hpp"
#include "tessera/cli/unknown_option.hpp"
#include "tessera/job/joined.hpp"
#include "tessera/planner/variants/layouts.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/spec/schema.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/tensor/told.hpp"

namespace tessera::cli {

namespace {

void add_follow_links(CLI::App* command, const std::function<void()>& allow) {
  command->add_flag_callback("--follow-links", allow,
                             "links in a folder that is read may lead outside of it");
}

CLI::App* add_command(CLI::App& parent, const char* name, const char* about, Options& options,
                      bool needs_file = true) {
  auto* command = parent.add_subcommand(name, about);
  command->add_option("file", options.file, "the run file (TOML)")->required(needs_file);
  command->add_option("overrides", options.overrides, "section.key=value, over what the file says");
  command->add_flag("--json", options.json, "print one JSON object (docs/json.md)");
  command->add_flag("--print-config", options.print_config, "print the whole resolved run file and stop");
  add_follow_links(command, [&options] { options.overrides.push_back("model.follow_links=true"); });
  command->set_help_all_flag("--help-all", "the same with all keys of a run file");
  command->footer(cat("Any of the ", spec::schema().size(),
                      " keys of a run file may be given as section.key=value; --help-all lists them."));
  return command;
}

constexpr int kMostProcs = 4096;

// --procs, or --procs N.
void add_procs(CLI::App* command, Options& options, const char* about) {
  const auto read = [&options](const CLI::results_t& given) {
    const std::string& text = given.front();
    const bool bare = text.empty() || text == "true";
    const bool number = !bare && text.find_first_not_of("0123456789") == std::string::npos && text.size() < 6;
    options.procs = bare ? job::kProcsOfLayout : number ? std::stoi(text) : 0;
    if (options.procs == 0 || options.procs > kMostProcs)
      throw UserError(cat("--procs ", text, ": wants a number of local ranks from 1 to ", kMostProcs));
    return true;
  };
  command->add_option("--procs", read, about)->expected(0, 1)->type_name("N");
}

// "1,1,0.5".
std::vector<double> numbers(const std::string& option, const std::string& text, std::size_t least,
                            std::size_t most) {
  std::vector<double> out;
  for (std::size_t at = 0, end = 0; end != std::string::npos && out.size() <= most; at = end + 1) {
    end = text.find(',', at);
    out.push_back(
        required_number(cat(option, " ", text, ":"), text.substr(at, end - at), {.least = 0, .most = 1e12}));
  }
  if (out.size() >= least && out.size() <= most) return out;
  throw UserError(cat(option, " ", text, ": wants ", least == most ? cat(least) : cat(least, " to ", most),
                      " numbers of at least 0, with commas between them"));
}

// A schedule by itself or a run file, and what ops cost.
void add_simulated(CLI::App* command, SimulateOptions& simulate) {
  command
      ->add_option(
          "--schedule", simulate.schedule,
          "instead of a run file: a schedule by itself, or an order.csv (a row per rank, cells like 2F0)")
      ->type_name("NAME");
  command->add_option("--stages", simulate.stages, "ranks of its pipeline")->check(CLI::Range(1, 4096));
  command->add_option("--virtual", simulate.num_virtual, "stages per rank (default: those of the schedule)")
      ->check(CLI::Range(1, 64));
  command->add_option("--micro-batches", simulate.micro_batches, "of a step")->check(CLI::Range(1, 1 << 20));
  command
      ->add_option_function<std::string>(
          "--costs", [&](const std::string& text) { simulate.costs = numbers("--costs", text, 3, 4); },
          "of a micro-batch on a rank: forward, input half, weight half of the backward; of a transfer")
      ->type_name("F,I,W[,T]");
  command
      ->add_option("--memory-limit", simulate.memory_limit,
                   "activations of a stage that a rank may hold at a time")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  command
      ->add_option_function<std::string>(
          "--rates", [&](const std::string& text) { simulate.rates = numbers("--rates", text, 4, 4); },
          "with a run file: TFLOP/s, GB/s of memory, GB/s of a link, microseconds of a message")
      ->type_name("F,M,L,U");
  auto* traces =
      command
          ->add_option(
              "--costs-from", simulate.costs_from,
              "with a run file: what ops took in a trace of the model (train --trace); may be given again")
          ->type_name("TRACE")
          ->excludes("--rates");
  command
      ->add_option("--loads", simulate.loads,
                   "with a run file: experts as loaded as they were in this metrics.jsonl (default: evenly)")
      ->type_name("FILE")
      ->excludes(traces);
}

void add_draw(CLI::App* command, Options& options) {
  add_simulated(command, options.simulate);
  command->add_option("-o,--out", options.draw.out,
                      "picture.svg, page.html, or program.txt for the ops (default: <name of the file>.svg)");
  command->add_option("--measured", options.draw.measured,
                      "with a run file: draw this trace (tessera train --trace) below the prediction");
  command->add_flag("--memory", options.draw.memory,
                    "with a run file: what ranks hold over the step, by category, instead of their ops");
  command->add_flag("--layout", options.draw.layout,
                    "with a run file: the mesh, and which rank holds which piece of which parameter; a table "
                    "without -o");
  command->add_flag(
      "--experts", options.draw.experts,
      "with the metrics.jsonl of a run: how loaded each expert of each layer was, step by step");
  command->add_option("--step", options.draw.step, "of the trace (default: the one of median length)")
      ->check(CLI::PositiveNumber);
}

// A command of `tessera checkpoint`, which takes one folder or two.
CLI::App* add_checkpoint(CLI::App& parent, const char* name, const char* about, Options& options,
                         int (*act)(const Options&), const char* folder, const char* second = nullptr) {
  auto* command = parent.add_subcommand(name, about);
  command->add_option(second ? "from" : "folder", options.checkpoint.folder, folder)->required();
  if (second) command->add_option("to", options.checkpoint.second, second)->required();
  command->add_flag("--json", options.json, "print one JSON object (docs/json.md)");
  add_follow_links(command, [&options] { options.checkpoint.links = Links::followed; });
  command->callback([&options, act] { options.checkpoint.command = act; });
  return command;
}

void add_checkpoints(CLI::App& app, Options& options) {
  auto* parent = app.add_subcommand("checkpoint",
                                    "look at checkpoints, check, compare, rewrite, import and export them");
  parent->require_subcommand(1);
  CheckpointOptions& own = options.checkpoint;
  add_checkpoint(*parent, "inspect", "what a checkpoint holds, or which ones a run has", options,
                 checkpoint_inspect_command, "a checkpoint, or the folder of a run")
      ->add_flag("--all", own.all, "every tensor and file by itself");
  add_checkpoint(*parent, "verify", "read every byte and hold it to its hash", options,
                 checkpoint_verify_command, "a checkpoint, or the folder of a run: all of its checkpoints");
  auto* reshard = add_checkpoint(*parent, "reshard", "rewrite into another number of files of equal bytes",
                                 options, checkpoint_reshard_command, "a checkpoint", "the folder to make");
  reshard->add_option("--ranks", own.ranks, "how many shards")->check(CLI::Range(1, 1 << 16))->required();
  reshard->add_flag("--parameters-only", own.parameters_only, "leave out what training keeps beside them");
  add_checkpoint(*parent, "diff", "whether two checkpoints say the same, whatever their layouts", options,
                 checkpoint_diff_command, "a checkpoint", "another")
      ->add_flag("--all", own.all, "every tensor that differs");
  add_checkpoint(*parent, "import", "make a checkpoint of a folder of Hugging Face", options,
                 checkpoint_import_command, "a folder with config.json and safetensors files",
                 "the checkpoint to make");
  auto* write = add_checkpoint(*parent, "export", "make a folder that transformers opens", options,
                               checkpoint_export_command, "a checkpoint", "the folder to make");
  write->add_option("--dtype", own.dtype, "of the weights (default: as its config.json says, else fp32)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  write
      ->add_option("--like", own.like,
                   "take config.json, tokenizer and other files from this folder (default: from the import)")
      ->type_name("FOLDER");
}

CLI::App* add_verify(CLI::App& app, Options& options) {
  auto* verify =
      add_command(app, "verify", "compare the layout, or all of them, with one device, in fp64", options);
  add_procs(verify, options, "rank processes instead of threads: this many, or as many as the layout has");
  LayoutsOptions& own = options.layouts;
  auto* all = verify
                  ->add_option("--all-layouts", own.most_ranks,
                               "every legal layout on up to so many ranks, as threads, of a small model")
                  ->check(CLI::Range(1, 64))
                  ->type_name("RANKS")
                  ->excludes("--procs");
  verify->add_option("--sample", own.sample, "so many of them, as different as possible")
      ->check(CLI::PositiveNumber)
      ->needs(all);
  verify
      ->add_option(
          "--part", own.part,
          "one of several parts of them, for several machines or sittings: 2/4 is the second of four")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return part_of_layouts(text)
                       ? ""
                       : "--part wants two numbers such as 2/4, the first at most the second";
          },
          "K/N"))
      ->needs(all);
  verify->add_option("--steps", options.verify_steps, "how many steps are compared")
      ->check(CLI::Range(2, 100));
  verify
      ->add_option("--replay", options.replay,
                   "instead: the updates.jsonl of a run whose workers update by themselves, once more in its "
                   "order in one process, to the same bits")
      ->type_name("LOG")
      ->excludes(all)
      ->excludes("--procs");
  auto* seed = verify->add_option("--seed", own.seed, "of what is dealt and drawn");
  verify
      ->add_option("--axes", own.axes, "what varies (default: all): " + join(planner::variable_axes(), ", "))
      ->delimiter(',')
      ->type_name("LIST")
      ->needs(all);
  verify
      ->add_option("--precision", own.precision,
                   "fp64 (allowed 1e-10), or fp32 with production kernels (1e-4)")
      ->check(CLI::IsMember({"fp64", "fp32"}))
      ->needs(all);
  if (!options.device.known) {
    seed->needs(all);
  } else {
    seed->description("of what is dealt, drawn and delayed");
    auto* device = verify->add_option("--device", options.device.name, "instead of the CPU")
                       ->check(CLI::IsMember({options.device.known->name}))
                       ->excludes("--procs");
    verify->add_flag("--one-queue", options.device.one_queue, "all communication of a device in one queue")
        ->needs(device);
  }
  return verify;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    out.push_back(each->get_name());
  return out;
}

// A message of the parser, with the page of help that explains it or, where a command is missing, those there
// are.
std::string what_is_missing(const CLI::App& app, const std::string& message) {
  const CLI::App* at = &app;
  std::string named = "tessera";
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front(), named += " " + at->get_name();
  const std::vector<std::string> commands = commands_of(*at);
  if (!commands.empty() && at->get_option_no_throw("file") == nullptr)
    return cat(named, " needs a command: ", join(commands, ", "), ". See ", named, " --help.");
  return cat(message, "\nSee ", named, " --help.");
}

// The parser alone would say that a command is required.
void refuse_unknown_command(const CLI::App& app, const std::vector<std::string>& argv) {
  const CLI::App* at = &app;
  for (std::size_t i = 1; i < argv.size() && !argv[i].starts_with('-'); ++i) {
    const std::vector<std::string> names = commands_of(*at);
    if (names.empty()) return;
    const bool takes_file = at != &app && at->get_option_no_throw("file") != nullptr;
    const bool is_slip = nearest(argv[i], names) && !std::filesystem::exists(argv[i]);
    if (takes_file && !is_slip && std::ranges::count(names, argv[i]) == 0) return;
    if (std::ranges::count(names, argv[i]) == 0) {
      throw UserError(cat("unknown command '", argv[i], "'", did_you_mean(nearest(argv[i], names)),
                          " The commands of ", at->get_name(), " are ", join(names, ", "), "."));
    }
    at = at->get_subcommand(argv[i]);
  }
}

constexpr std::size_t kHelpColumns = 100;

int dispatch(int argc, char** argv, const std::optional<TestDevice>& device) {
  Options options;
  options.device.known = device;
  options.main_seconds = now_seconds();
  options.argv.assign(argv, argv + argc);
  CLI::App app{"tessera: trains transformer models on many devices, proven equal to one", "tessera"};
  app.require_subcommand(1);
  auto* train = add_command(app, "train", "train as the run file says", options);
  add_procs(train, options, "start this many local ranks (default: as many as the layout has)");
  train->add_option("--out", options.out,
                    "folder of metrics.jsonl, tensorboard/ and checkpoints/ (default: runs/<name of the run "
                    "file>, and what the command line changes of what is learnt)");
  train->add_flag("--dry-run", options.dry_run,
                  "say what each rank would hold (as plan memory does), and stop");
  train
      ->add_option(
          "--from", options.from,
          "go on from this checkpoint, or the newest in this folder (default: the newest of the run, if "
          "there is one); none: begin anew")
      ->type_name("FOLDER");
  train->add_flag("--reset-optimizer", options.reset_optimizer,
                  "go on from a checkpoint of another optimizer, whose state is dropped");
  train->add_flag(
      "--accept-changed-data", options.accept_changed_data,
      "go on with another data file, order, batch or sequence than the checkpoint was trained with");
  train->add_option("--trace", options.trace, "write a Chrome/Perfetto trace to this file");
  auto* verify = add_verify(app, options);
  auto* simulate =
      add_command(app, "simulate", "say how long a step would take, and what it would hold", options, false);
  add_simulated(simulate, options.simulate);
  auto* draw = add_command(app, "draw", "draw the step of a run file, a schedule or a trace", options, false);
  draw->get_option("file")->description(
      "the run file (TOML), a program (.txt) that this command wrote, a trace (JSON) of tessera train "
      "--trace, or with --experts a metrics.jsonl");
  add_draw(draw, options);
  auto* plan = app.add_subcommand("plan", "which layout, will it fit, how long, how much, and how sure");
  PlanOptions planned;
  planned.argv = options.argv;
  add_plan_commands(*plan, planned);
  plan->require_subcommand(0, 1);
  auto* memory = add_command(*plan, "memory", "what each rank would hold, when most, and of what", options);
  auto* bench = app.add_subcommand("bench", "measure on this machine");
  bench->require_subcommand(1);
  add_bench_profile(*bench, planned);
  auto* step =
      add_command(*bench, "step", "the executor against a plain loop over the same kernels", options);
  step->add_option("--rounds", options.rounds, "interleaved pairs of steps")->check(CLI::Range(3, 10000));
  add_checkpoints(app, options);
  add_data_commands(app, options.data);
  TokenizerOptions tokenizer;
  add_tokenizer_commands(app, tokenizer);
  AskOptions ask;
  ask.argv = options.argv;
  ask.main_seconds = options.main_seconds;
  add_ask_commands(app, ask);
  auto* save = app.add_subcommand("save", "ask a job that is under way for a checkpoint, and wait for it");
  save->add_option("run", options.checkpoint.folder, "the folder of the run (--out of train)")->required();
  save->add_flag("--json", options.json, "print one JSON object (docs/json.md)");
  auto* doctor = app.add_subcommand("doctor", "say whether this machine can train, and what to mend");
  doctor->add_flag("--json", options.json, "print one JSON object (docs/doctor.md)");
  auto* completion =
      app.add_subcommand("completion", "print the script by which a shell completes what is typed");
  std::string shell;
  completion->add_option("shell", shell, "bash or zsh: source <(tessera completion bash)")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  app.set_version_flag("--version", cat("tessera ", kVersion, ", LibTorch ", tensor::engine_version()));

  refuse_unknown_command(app, options.argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << wrapped(app.help(), kHelpColumns);
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    std::cout << wrapped(app.help(), kHelpColumns) << "\nKeys of a run file:\n"
              << wrapped(spec::schema_text(), kHelpColumns);
    return 0;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    if (const std::string unknown = unknown_option(app, options.argv); !unknown.empty())
      throw UserError(unknown);
    throw UserError(what_is_missing(app, error.what()));
  }
  if (completion->parsed()) {
    std::cout << completion_script(app, shell);
    return 0;
  }
  if (options.print_config && !options.file.empty()) {
    std::cout << spec::to_text(job::load_run(options));
    return 0;
  }
  if (options.checkpoint.command) return options.checkpoint.command(options);
  if (options.data.command) return options.data.command(options.data, std::cout);
  if (tokenizer.command) return tokenizer.command(tokenizer, std::cout);
  if (ask.command) return ask.command(ask);
  if (train->parsed() && !options.dry_run) {
    if (options.procs == 0) options.joins = launch::Joins::any;
    job::expect_not_one_of_several(options.procs);
  }
  if (train->parsed()) plan_layout(options, options.json);
  if (train->parsed() && !options.dry_run) return train_command(options);
  if (train->parsed() || memory->parsed()) return plan_memory_command(options);
  if (planned.command) return planned.command(planned);
  if (plan->parsed()) return plan_command(planned);
  if (doctor->parsed()) return doctor_command(options);
  if (save->parsed()) return save_command(options);
  if (verify->parsed() && options.layouts.most_ranks > 0) return verify_layouts_command(options);
  if (verify->parsed() && !options.replay.empty()) return replay_command(options);
  if (verify->parsed()) return verify_command(options);
  if (simulate->parsed()) return simulate_command(options);
  if (draw->parsed()) return draw_command(options);
  return bench_step_command(options);
}

}  // namespace

int run(int argc, char** argv, const std::optional<TestDevice>& device) {
  // A file size limit (ulimit -f) makes writes fail, as a full disk does, instead of ending the process.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return dispatch(argc, argv, device);
  } catch (...) {
    const auto told = tensor::told(std::current_exception());
    std::cerr << "tessera: " << told.text << std::endl;
    return told.exit_code;
  }
}

}  // namespace tessera::cli
