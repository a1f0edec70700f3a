# Benchmarks: built by the target `long`.
function(tessera_bench name source)
  add_executable(${name} ${PROJECT_SOURCE_DIR}/bench/${source})
  target_link_libraries(${name} PRIVATE ${ARGN})
  tessera_long(${name})
endfunction()

find_library(TESSERA_URING uring REQUIRED)
# How fast programs are made, checked and simulated.
tessera_bench(schedule_speed schedules/main.cpp tessera_simulate tessera_program_passes)
# How fast layouts are priced, compiled and simulated.
tessera_bench(plan_speed planner/main.cpp tessera_planner_search)
# How far the planner's bounds lie from what is simulated; whether a plan's answer is the best there is.
tessera_bench(plan_bounds planner/bounds.cpp tessera_planner_search)
tessera_bench(plan_optimum planner/optimum.cpp tessera_planner_search)
# Whether more of anything ever makes a plan worse, and whether pinned keys are kept.
tessera_bench(plan_trials planner/trials.cpp tessera_planner_testing)
# How fast offloaded bytes go to files and back, by several kinds of calls.
tessera_bench(offload_speed offload/main.cpp tessera_base_files ${TESSERA_URING})
# What opening and reading very many documents costs.
tessera_bench(data_speed data/main.cpp tessera_data_samples tessera_base_process)
# What writing a checkpoint costs next to a bare write, and rewriting one in memory.
tessera_bench(checkpoint_speed checkpoint/main.cpp tessera_checkpoint_tools tessera_checkpoint_huggingface)
# How fast texts are encoded.
tessera_bench(tokenizer_speed tokenizer/main.cpp tessera_tokenizer)
if(TESSERA_RUN_STOREY)
  tessera_bench(bare_step_main bare/main.cpp tessera_bare)
  # What saving costs a run that continues meanwhile.
  tessera_bench(saving_cost saving/main.cpp tessera_train tessera_collective_transports_threads)
  tessera_lean_header(saving_cost lean_header)
  # Attention on one rank, and on several that share the sequence.
  tessera_bench(context_speed context/main.cpp tessera_parallel tessera_collective_transports_threads)
  tessera_lean_header(context_speed lean_header)
endif()
