//! Says which figures are found on which engine's page, and that broken ones cost only themselves.

use proptest::prelude::*;

use super::*;

/// From a page of vLLM 0.32.0, shortened.
const VLLM: &str = r#"# HELP vllm:num_requests_running Number of requests in batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 3215.0
vllm:prefix_cache_queries_created{engine="0",model_name="tiny"} 1.796035865396303e+09
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 1920.0
vllm:num_preemptions_total{engine="0",model_name="tiny"} 4.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 3215.0
vllm:generation_tokens_total{engine="0",model_name="tiny"} 197.0
process_start_time_seconds 1.79603582689e+09
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="tiny"} 18.0
vllm:cache_config_info{block_size="32",x="[]",kv_cache_size_tokens="16384",num_gpu_blocks="512"} 1.0
"#;

fn text(text: &str) -> EngineFigures {
    read(text.as_bytes())
}

#[test]
fn the_figures_of_vllm_are_found() {
    let wanted = EngineFigures {
        running: Some(3),
        waiting: Some(2),
        kv_usage: Some(0.25),
        kv_capacity_tokens: Some(16_384),
        block_size: Some(32),
        preemptions_total: Some(4),
        prompt_tokens_total: Some(3215),
        generation_tokens_total: Some(197),
        prefix_queries_total: Some(3215),
        prefix_hits_total: Some(1920),
        started_at: Some(1.796_035_826_89e9),
        samples: 13,
        skipped: 0,
    };
    assert_eq!(text(VLLM), wanted);
    assert_eq!(text(&VLLM.replace('\n', "\r\n")), wanted);
}

#[test]
fn a_bad_sample_is_skipped_and_counted_and_the_rest_is_used() {
    // A16
    let page = "sglang:fwd_occupancy NaN\nx -nan\ny +Inf\nz -1\nhalf_a_line\nopen{a=\"b\n\
        text{a=\"b\"} none\n{a=\"b\"} 1\nsglang:num_running_reqs{tp_rank=\"0\"} 7.0\n\
        sglang:num_queue_reqs NaN\nsglang:token_usage 0.5 1700000000000\n";
    let figures = text(page);
    assert_eq!((figures.running, figures.waiting), (Some(7), None));
    assert_eq!(figures.kv_usage, Some(0.5));
    assert_eq!((figures.samples, figures.skipped), (2, 9));
}

#[test]
fn both_names_of_the_usage_are_known_and_neither_is_unknown() {
    // A17
    let (new, old) = ("vllm:kv_cache_usage_perc 0.5\n", "vllm:gpu_cache_usage_perc 0.75\n");
    assert_eq!(text(new).kv_usage, Some(0.5));
    assert_eq!(text(old).kv_usage, Some(0.75));
    assert_eq!(text(&[old, new].concat()).kv_usage, Some(0.5));
    assert_eq!(text("vllm:num_requests_running 1\n").kv_usage, None);
    assert_eq!(text("vllm:kv_cache_usage_perc 1.5\n").kv_usage, Some(1.0));
    assert_eq!(text(""), EngineFigures::default());
}

#[test]
fn ranks_of_data_parallelism_are_summed() {
    let page = format!("{VLLM}{}", VLLM.replace("engine=\"0\"", "engine=\"1\""));
    let figures = text(&page.replacen("0.25", "0.75", 1));
    assert_eq!((figures.running, figures.waiting), (Some(6), Some(4)));
    assert_eq!(figures.kv_usage, Some(0.5));
    assert_eq!((figures.kv_capacity_tokens, figures.block_size), (Some(32_768), Some(32)));
    assert_eq!(figures.prompt_tokens_total, Some(6430));
}

#[test]
fn parts_of_a_model_that_is_split_are_not() {
    let page = "sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"0\"} 2\n\
        sglang:num_running_reqs{dp_rank=\"0\",tp_rank=\"1\"} 2\n\
        sglang:num_running_reqs{dp_rank=\"1\",tp_rank=\"0\",pp_rank=\"0\"} 3\n\
        sglang:num_running_reqs{dp_rank=\"1\",tp_rank=\"0\",pp_rank=\"1\"} 3\n\
        sglang:max_total_num_tokens{tp_rank=\"0\"} 1000\n\
        sglang:max_total_num_tokens{tp_rank=\"1\"} 1000\n\
        sglang:cache_config_info{num_pages=\"999\",page_size=\"16\"} 1\n";
    let figures = text(page);
    assert_eq!((figures.running, figures.kv_capacity_tokens), (Some(5), Some(1000)));
    assert_eq!(figures.block_size, Some(16));
}

#[test]
fn capacity_is_blocks_times_their_size_where_tokens_are_not_told() {
    let page = |labels: &str| text(&format!("vllm:cache_config_info{{{labels}}} 1.0\n"));
    let capacity = |labels: &str| page(labels).kv_capacity_tokens;
    assert_eq!(capacity(r#"block_size="32",num_gpu_blocks="70""#), Some(2240));
    let untold = r#"num_gpu_blocks="320",block_size="8",kv_cache_size_tokens="None""#;
    assert_eq!(capacity(untold), Some(2560));
    assert_eq!(capacity(r#"block_size="32",num_gpu_blocks="None""#), None);
    assert_eq!(capacity(r#"block_size="32",num_gpu_blocks="0""#), None);
    assert_eq!(
        capacity(r#"note="num_gpu_blocks=\"9\"}",block_size="2",num_gpu_blocks="3""#),
        Some(6)
    );
    assert_eq!(capacity(r#"block_size="18446744073709551615",num_gpu_blocks="2""#), None);
    let hybrid = r#"num_gpu_blocks="320",block_size="8",kv_cache_size_tokens="463459""#;
    assert_eq!(capacity(hybrid), Some(463_459));
    assert_eq!(
        text("sglang:cache_config_info{page_size=\"1\",num_pages=\"9\"} 1").kv_capacity_tokens,
        Some(9)
    );
}

#[test]
fn llama_server_counts_cached_tokens_apart() {
    let page = "llamacpp:prompt_tokens_total 2390\nllamacpp:prompt_tokens_cached_total 1281\n\
        llamacpp:tokens_predicted_total 5301\nllamacpp:requests_processing 4\n\
        llamacpp:requests_deferred 0\nllamacpp:prompt_seconds_total 0.05048\n";
    let figures = text(page);
    assert_eq!((figures.running, figures.waiting), (Some(4), Some(0)));
    assert_eq!(
        (figures.prompt_tokens_total, figures.generation_tokens_total),
        (Some(2390), Some(5301))
    );
    assert_eq!((figures.prefix_queries_total, figures.prefix_hits_total), (Some(3671), Some(1281)));
    assert_eq!(text("tgi_queue_size 5\ntgi_batch_current_size 2\n").waiting, Some(5));
}

#[test]
fn a_page_cut_anywhere_tells_no_wrong_figure() {
    let whole = text(VLLM);
    for cut in 0..VLLM.len() {
        let page = &VLLM[..cut];
        let figures = text(&page[..page.rfind('\n').map_or(0, |end| end + 1)]);
        assert!(figures.running.is_none_or(|running| Some(running) == whole.running));
        assert!(figures.samples <= whole.samples && figures.skipped == 0);
        let _ = text(page);
    }
}

proptest! {
    #[test]
    fn no_bytes_break_the_reading(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
    }

    #[test]
    fn no_page_breaks_the_reading(
        words in prop::collection::vec(prop_oneof![
            r"(vllm:cache_config_info|vllm:kv_cache_usage_perc|sglang:page_size)",
            r#"(block_size=|[{}"=,\\ \n]|NaN|1e400|7|-)"#,
        ], 0..40),
    ) {
        let figures = text(&words.concat());
        prop_assert!(figures.kv_usage.is_none_or(|usage| (0.0..=1.0).contains(&usage)));
    }
}
