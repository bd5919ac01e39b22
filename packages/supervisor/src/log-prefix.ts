/**
 * Removes colours and the prefixes of loggers and containers from a line, so a message looks the same wherever it was
 * collected: `vllm-1  | ERROR 09-28 15:47:24 [core.py:718] ValueError: …` becomes `ValueError: …`.
 *
 * I1  Bounded: each rule is anchored and linear, and at most PREFIXES_MAX prefixes are removed from one line.
 */
import { isObject } from '@breakfall/faults/internal'

export type Stripped = {
  readonly text: string
  /** The log level in lower case, if the line has one. */
  readonly level: string | undefined
}

const PREFIXES_MAX = 10 // container, timestamp, level, process, source … with room to spare
const PREFIX_CHARS_MAX = 400 // no prefix is longer

export function stripLogPrefix(line: string): Stripped {
  let text = withoutColours(line).trim()
  let level: string | undefined
  const unwrapped = fromJsonLog(text)
  if (unwrapped !== undefined) ({ text, level } = unwrapped)
  for (let count = 0; count < PREFIXES_MAX; count += 1) {
    const head = text.length > PREFIX_CHARS_MAX ? text.slice(0, PREFIX_CHARS_MAX) : text
    const match = firstPrefix(head)
    if (match === null || match[0].length === 0 || match[0].length === text.length) break
    level ??= match.groups?.['level']?.toLowerCase()
    text = text.slice(match[0].length).trimStart() // I1
    if (match.groups?.['quote'] !== undefined && text.endsWith('"')) text = text.slice(0, -1)
  }
  return { text, level }
}

/** Removes ANSI escapes (colours, cursor moves, titles) and control characters other than tab. */
export function withoutColours(line: string): string {
  return CONTROL.test(line) ? line.replace(ESCAPES, '').replace(CONTROLS, '') : line
}

// ---- details ----

/* eslint-disable no-control-regex -- control characters are the subject here */
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/
const CONTROLS = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f]/g
const ESCAPES = /\u001b\[[0-9;:?<=>]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b[@-Z\\^_]/g
/* eslint-enable no-control-regex */

const LEVEL = '(?<level>TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|FATAL|CRITICAL|SEVERE)'
const STAMP = String.raw`\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?: ?(?:Z|UTC|[+-]\d{2}:?\d{2}))?`

/** Each was seen in a real log; the comment shows the sample. */
const PREFIXES: readonly RegExp[] = [
  new RegExp(String.raw`^\[?${STAMP}(?: [A-Z]{2}\d+)?\]?(?: -)?(?:\s+|$)`), // [2025-06-22 16:13:55 TP0]
  /^\[?\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?: ?[AP]M)?\]?\s+/, // 12:07:13.402
  new RegExp(String.raw`^\[ \d{2}:\d{2}:\d{2}\.\d+[AP]M \| ${LEVEL}\s*\]\s*`), // [ 05:21:08.2314AM | WARNING ]
  new RegExp(String.raw`^[\w.]{1,60} - ${LEVEL} - `), // mcp.server - INFO -
  new RegExp(String.raw`^${LEVEL} \(\d+\): `), // pino-pretty: [12:00:00.123] ERROR (4711):
  new RegExp(String.raw`^${LEVEL}:[A-Za-z_][\w.]{0,60}:`), // Python's default: ERROR:root:
  new RegExp(String.raw`^${LEVEL}(?: - |:|\s+|$)\s*`), // ERROR:    and  ERROR  and  ERROR -
  new RegExp(String.raw`^[[(<]${LEVEL}\s*[\])>]:?\s*`, 'i'), // [error]
  /^\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:\.\d+)? (?:\[[\w./:-]+\]|[\w./-]+:\d+\])\s*/, // 09-28 15:47:24 [core.py:718]
  /^\[[\w./-]+\.(?:py|go|cpp|cc|rs|ts|js):\d+\]\s*/, // [core_client.py:564]
  /^[\w-]+\.go:\d+: /, // llama.go:438:
  /^\([\w.-]+ pid=\d+\)\s*/, // (EngineCore_DP0 pid=17374)
  /^\[rank\d+\]:\s*/, // [rank0]:
  /^(?:stdout|stderr) [FP] /, // containerd: 2024-… stderr F
  /^\[[\w.@/-]+ (?:stdout|stderr)\]\s*/, // [server stderr]
  /^(?:\[\d+\]\s+)?\d+\.\d{2}\.\d{3}\.\d{3} (?<level>[A-Z]) /, // [37723] 52.17.402.129 W
  /^[IWEF]\d{4} \d{2}:\d{2}:\d{2}\.\d+\s+\d+ [\w.-]+:\d+\] /, // glog: E1115 12:00:00.000000  123 a.cc:1]
  /^[A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} [\w.-]+ [\w./@-]+(?:\[\d+\])?: /, // syslog: Nov 15 12:00:00 host app[1]:
  /^(?:(?:time|ts)=\S+ )?level=(?<level>\w+) (?:(?:time|ts|source|caller)=\S+ ){0,3}msg=(?<quote>")?/, // Go's slog, logrus
  /^(?<level>trace|debug|info|warn|error|fatal|panic)\t(?:[\w./-]+\.go:\d+\t)?/, // zap: 2026-…Z\terror\tserver/main.go:12\t
  /^(?:[a-z_]\w*(?:::\w+)*: )?[\w./-]+\.rs:\d+: /, // tracing: text_generation_router: router/src/main.rs:12:
  /^[\w.-]+ [\w./@-]+\[\d+\]: /, // a journal line after its timestamp: host app[12]:
  /^[A-Za-z0-9][\w.-]{0,62}\s*\| /, // compose: vllm-1  |
  /^[a-z][\w.-]*-\d+: /, // a replica: worker-1:
  /^<\d{1,3}>/, // a syslog priority
  /^\|\s+/, // loguru: 2026-11-15 12:00:00.123 | ERROR    | app:main:12 -
  /^[\w.]+:[\w<>]+:\d+ - /,
  /^\[(?!ring\]|METAL\]|jaccl\]|Errno|metal::)[A-Za-z0-9][\w .:/@-]{0,39}\]:?\s+/, // [my-server]
]

function firstPrefix(head: string): RegExpExecArray | null {
  for (const prefix of PREFIXES) {
    const match = prefix.exec(head)
    if (match !== null) return match
  }
  return null
}

/** One line of a JSON logger: `log` from Docker, `msg` from pino and zap, `message` from others. */
function fromJsonLog(text: string): { text: string; level: string | undefined } | undefined {
  if (!text.startsWith('{"') || !text.endsWith('}')) return undefined
  try {
    const record: unknown = JSON.parse(text)
    if (!isObject(record)) return undefined
    const message = record['log'] ?? record['msg'] ?? record['message']
    if (typeof message !== 'string' || message === '') return undefined
    const level = record['level']
    return { text: withoutColours(message).trim(), level: typeof level === 'string' ? level.toLowerCase() : undefined }
  } catch {
    return undefined // it only looked like JSON; the line is used unchanged
  }
}
