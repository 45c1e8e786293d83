//! Holds files of objectives to what becomes of them.

use std::path::Path;

use super::{Latency, Objectives};

fn parse(text: &str) -> Objectives {
    Objectives::parse(Path::new("slo.yaml"), text).unwrap()
}

fn faults(text: &str) -> String {
    Objectives::parse(Path::new("slo.yaml"), text).unwrap_err().to_string()
}

const SLOTH: &str = r#"version: "prometheus/v1"
service: "chat"
slos:
  - name: "served"
    objective: 99.9
    sli:
      events:
        error_query: sum(rate(http_requests_total{code=~"5..|429"}[{{.window}}]))
        total_query: sum(rate(http_requests_total[{{.window}}]))
    alerting:
      name: ChatAvailability
  - name: "first-token"
    objective: 99
    sli:
      events:
        error_query: |
          sum(rate(vllm:time_to_first_token_seconds_count[{{.window}}])) -
          sum(rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[{{.window}}]))
        total_query: sum(rate(vllm:time_to_first_token_seconds_count[{{.window}}]))
"#;

const OPENSLO: &str = r#"apiVersion: openslo/v1
kind: Service
metadata: { name: chat }
---
apiVersion: openslo/v1
kind: SLO
metadata:
  name: first-token
spec:
  service: chat
  indicator:
    metadata: { name: ttft }
    spec:
      thresholdMetric:
        metricSource:
          type: Prometheus
          spec: { query: "forebay_time_to_first_token_seconds" }
  timeWindow: [{ duration: 28d, isRolling: true }]
  budgetingMethod: Timeslices
  objectives:
    - { displayName: usual, op: lte, value: 1.5, target: 0.9 }
    - { displayName: worst, op: lte, value: 20, targetPercent: 99 }
"#;

#[test]
fn a_sloth_file_becomes_criteria() {
    let objectives = parse(SLOTH);
    assert_eq!(
        objectives.criteria_toml(),
        "completed_share_min = 0.999\nttft_ms_max = { p99 = 2500 }\n"
    );
    assert_eq!(objectives.list[1].latency, Some((Latency::Ttft, 2500.0)));
    assert!(objectives.unmapped.iter().any(|one| one == "`served`: its alerts"));
}

#[test]
fn a_sloth_file_for_kubernetes_reads_the_same() {
    let lines: Vec<String> = SLOTH.lines().skip(1).map(|line| format!("  {line}")).collect();
    let indented = lines.join("\n");
    let text =
        format!("apiVersion: sloth.slok.dev/v1\nkind: PrometheusServiceLevel\nspec:\n{indented}");
    assert_eq!(parse(&text).criteria_toml(), parse(SLOTH).criteria_toml());
}

#[test]
fn an_openslo_file_becomes_criteria_and_what_does_not_map_is_said() {
    let objectives = parse(OPENSLO);
    assert_eq!(objectives.criteria_toml(), "ttft_ms_max = { p90 = 1500, p99 = 20000 }\n");
    assert_eq!(objectives.list[0].window_days.to_bits(), 28.0_f64.to_bits());
    let said = objectives.unmapped.join("\n");
    for part in ["the Service `chat`", "(Timeslices)", "over days", "429 or 503"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn the_same_as_json_and_a_latency_by_annotation() {
    let text = r#"{"apiVersion": "openslo/v1", "kind": "SLO",
        "metadata": {"name": "whole", "annotations":
            {"forebay/latency": "e2e", "forebay/limit-ms": "30000"}},
        "spec": {"indicatorRef": "elsewhere", "objectives": [{"target": 0.5}]}}"#;
    let objectives = parse(text);
    assert_eq!(objectives.criteria_toml(), "e2e_ms_max = { p50 = 30000 }\n");
    assert!(objectives.unmapped[0].contains("`elsewhere`"));
}

#[test]
fn an_objective_that_cannot_be_held_against_a_run_is_never_guessed() {
    let odd = SLOTH.replace("objective: 99\n", "objective: 95\n");
    let objectives = parse(&odd);
    assert_eq!(objectives.criteria_toml(), "completed_share_min = 0.999\n");
    assert!(objectives.unmapped.iter().any(|one| one.contains("p50, p75, p90 and p99")));
    let strange = SLOTH.replace("vllm:time_to_first_token", "queue_time");
    assert!(parse(&strange).unmapped.iter().any(|one| one.contains("meaning is not known")));
    let only_strange: String = OPENSLO.replace("forebay_time_to_first_token_seconds", "up");
    assert!(faults(&only_strange).contains("no objective of it can be held against a run"));
}

#[test]
fn faults_come_all_at_once_with_their_lines() {
    let text = "slos:\n  - objective: 99\n  - name: a\n    objective: 100\n  - name: b\n";
    assert_eq!(
        faults(text),
        "slo.yaml:2: an objective has no `name`\nhint: give it one\n\
         slo.yaml:4: `a` has no `objective` that is one\n\
         hint: give a percentage above 0 and below 100, such as 99.9\n\
         slo.yaml:5: `b` has no `objective` that is one\n\
         hint: give a percentage above 0 and below 100, such as 99.9"
    );
    assert!(faults("apiVersion: openslo/v2alpha\n").contains("`openslo/v2alpha` is not read"));
    assert!(faults("a: 1\n").contains("neither OpenSLO"));
    assert!(faults("").contains("it is empty"));
    assert!(faults("a: [1").contains("neither YAML nor JSON"));
}
