# Trials: programs that damage, kill and compare whole jobs. Each has a small sample here; `.ci/long` runs them at full size.
if(TESSERA_RUN_STOREY)
  # The binary for developers, which also has `verify --device async`.
  add_executable(tessera_developer tests/developer/main.cpp)
  target_link_libraries(tessera_developer PRIVATE tessera_cli tessera_testing_async_device)
  set_target_properties(tessera_developer PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endif()
# Failures put into real jobs.
tessera_trial(hangs 1)
tessera_trial(failures $<TARGET_FILE:tessera_binary> 2)
tessera_trial(signals $<TARGET_FILE:tessera_binary> local 2 all 1 torchrun 1 mpirun 1)
tessera_trial(damages 1 42)
tessera_trial(damages 1 3 compressed)
tessera_layouts_test(llama 8 4 tessera_developer --device async)
tessera_layouts_test(gpt2 8 4 tessera_developer --device async --one-queue)
tessera_layouts_test(olmo2 8 3 tessera_binary)
tessera_layouts_test(mixtral 8 3 tessera_binary)
tessera_layouts_test(deepseek 4 3 tessera_binary)
tessera_trial(edits 200 100)
tessera_trial(edits edge 200 40)
tessera_trial(allocations)
tessera_trial(peaks 2)
tessera_trial(pairs 4)
tessera_trial(rounding 11)
tessera_long_trial(model_states)
tessera_long_trial(programs)
# The asynchronous device reports what is left out.
tessera_trial(device_mutants 4)
# Faults of the disk, put into jobs by LD_PRELOAD.
add_library(faulty_calls SHARED tests/faults/preload.cpp)
tessera_trial(faults $<TARGET_FILE:faulty_calls>)
tessera_trial(stalls $<TARGET_FILE:tessera_binary> $<TARGET_FILE:faulty_calls> 1)
tessera_trial(crashes $<TARGET_FILE:tessera_binary> $<TARGET_FILE:faulty_calls> 2 1)
tessera_trial(outputs $<TARGET_FILE:tessera_binary> $<TARGET_FILE:faulty_calls> 10)
# Two jobs in one folder; on a busy machine a process alone takes seconds to start.
tessera_trial(two_jobs $<TARGET_FILE:tessera_binary> $<TARGET_FILE:faulty_calls> 4 40 20)
tessera_trial(flips $<TARGET_FILE:tessera_binary> 100 3 21)
# First calls of vector functions by several threads.
add_library(slow_first_call SHARED tests/first_calls/preload.cpp)
tessera_trial(first_calls $<TARGET_FILE:tessera_binary> $<TARGET_FILE:slow_first_call> 4)
# Tokens compared with those of the pip package `tokenizers`, and the tables of Unicode made from it once more.
add_executable(tokens tests/tokenizer/tokens.cpp)
target_link_libraries(tokens PRIVATE tessera_tokenizer tessera_tokenizer_learn)
set_target_properties(tokens PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
tessera_process_test(tokenizer_trial .venv/bin/python tests/tokenizer/compare.py $<TARGET_FILE:tokens>)
tessera_process_test(sentencepiece_trial .venv/bin/python tests/tokenizer/compare_sentencepiece.py $<TARGET_FILE:tokens>
  --kinds "bpe bytes" "bpe symbols" "unigram nmt_nfkc" "unigram symbols" --megabytes 0.02 --strings 60 --training 8000)
if(TESSERA_RUN_STOREY)
  tessera_process_test(unicode_tables_trial .venv/bin/python scripts/make-unicode-tables --check)
  # What models say, compared with `transformers`.
  tessera_process_test(generate_trial .venv/bin/python tests/generate/compare.py $<TARGET_FILE:tessera_binary>
    --families llama gpt2 --tokens 48)
  # Workers that are delayed and killed, and a replay of what they did; replicas that are lost and come back.
  tessera_process_test(servers_trial .venv/bin/python tests/servers/servers.py $<TARGET_FILE:tessera_binary> --runs 1 --kills 1)
  tessera_process_test(replicas_trial .venv/bin/python tests/replicas/replicas.py $<TARGET_FILE:tessera_binary>
    $<TARGET_FILE:faulty_calls> --runs 1)
  # Ranks that are killed, and start again.
  tessera_process_test(restarts_trial .venv/bin/python tests/restarts/restarts.py $<TARGET_FILE:tessera_binary> --kills 2 --short)
  # Options and keys with numbers that nobody should give.
  tessera_process_test(sweep_trial .venv/bin/python tests/sweep/sweep.py $<TARGET_FILE:tessera_binary> --sample 5)
endif()

# What starts threads also runs under the thread sanitizer.
tessera_threads(base_test net_test program_test launch_test engine_test collective_test tokenizer_test)
tessera_shards(train_test 30)
tessera_shards(plan_test 4)
tessera_shards(planner_test 6)
tessera_shards(verify_test 4)
tessera_shards(testing_test 8)
tessera_shards(data_test 3)
tessera_processors(${TESSERA_MANY_CORES} train_test verify_test damages_trial damages_1_trial pairs_trial allocations_trial peaks_trial
  first_calls_trial cli_layout_process_test cli_huggingface_process_test)
tessera_processors(${TESSERA_WAITING} hangs_trial signals_trial failures_trial stalls_trial two_jobs_trial)
# Too long for `.ci/run`; smaller samples of the same faults and layouts stay there.
tessera_slow(cli_eight_process_test cli_layout_process_test cli_reference_loop_process_test train_local_steps_process_test
  stalls_trial allocations_trial generate_trial tokenizer_trial flips_trial)
# These compare times, or build.
foreach(test cli_overlap_process_test readme_test)
  if(TEST ${test})
    set_tests_properties(${test} PROPERTIES RUN_SERIAL TRUE)
  endif()
endforeach()

# Inputs made by libFuzzer (preset `asan`, scripts/fuzz).
tessera_fuzzer(safetensors checkpoint/format)
tessera_fuzzer(manifest checkpoint/format)
tessera_fuzzer(config checkpoint/huggingface)
tessera_fuzzer(run spec)
tessera_fuzzer(tokenizer tokenizer)
tessera_fuzzer(sentencepiece tokenizer)
tessera_fuzzer(index data/indexed)
tessera_fuzzer(packed data/text)
tessera_fuzzer(records data/tokenize)
tessera_fuzzer(chat data/chat)
