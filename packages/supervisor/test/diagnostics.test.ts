import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { collectDiagnostics, diagnose, diagnoseExit, readExit, SIGNATURES } from '../src/index.ts'
import { makeRedactor } from '../src/redactor.ts'

type Sample = { id: string; sample: string; exit: string; advice: string; retry: string; component: string }
type LookAlike = { id: string; line: string }

const fixture = <Row>(name: string): readonly Row[] =>
  readFileSync(new URL(`../../../fixtures/${name}`, import.meta.url), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Row)

const SAMPLES = fixture<Sample>('signatures.jsonl')
const LOOK_ALIKES = fixture<LookAlike>('signatures.negative.jsonl')

const PREFIXES = [
  '',
  'vllm-1  | ',
  'ollama  | ',
  '2026-11-15T12:00:00.123Z ',
  '2026/11/15 12:00:00 ',
  '[2026-11-15 12:00:00 TP0] ',
  '2026-11-15T12:00:00.123456789Z stderr F ',
  '2026-11-15 12:00:00,123 - mcp.server - ERROR - ',
  '2026-11-15 12:00:00.123 | ERROR    | app.core:main:12 - ',
  '(EngineCore_DP0 pid=17374) ERROR 09-28 15:47:24 [core.py:718] ',
  '[37723] 52.17.402.129 W ',
  'E1115 12:00:00.000000  123 server.cc:77] ',
  'Nov 15 12:00:00 host app[12]: ',
  'time=2026-11-15T12:00:00Z level=ERROR source=server.go:113 msg="',
  'time="2026-11-15T12:00:00Z" level=error msg="',
  'level=error ts=2026-11-15T12:00:00.000Z caller=main.go:12 msg="',
  '2026-11-15T12:00:00.000Z\terror\tserver/main.go:12\t',
  '2026-11-15T12:00:00.123456Z ERROR text_generation_router: router/src/main.rs:12: ',
  '2026-11-15 12:00:00,123 - ERROR - ',
  '2026-11-15T12:00:00+0000 host app[12]: ',
  '[12:00:00.123] ERROR (4711): ',
  'ERROR:root:',
  'ERROR:vllm.engine:',
  'ERROR | ',
  '[server stderr] ',
  '[error] ',
  'ERROR: ',
  'INFO ',
  '\u001b[31mERROR\u001b[0m ',
  '\u001b[2m2026-11-15T12:00:00Z\u001b[0m \u001b[33mWARN\u001b[0m ',
]

describe('the signatures', () => {
  it('are 152, each with a sample, advice for people and the verdict of its sample', () => {
    assert.equal(SAMPLES.length, 152)
    const rows = new Map(SIGNATURES.map((row) => [row.id, row]))
    assert.equal(rows.size, SIGNATURES.length, 'no id twice')
    for (const sample of SAMPLES.filter((row) => row.sample !== '')) {
      const row = rows.get(sample.id)
      assert.ok(row !== undefined, sample.id)
      assert.equal(row.retry, sample.retry)
    }
    for (const { id, advice } of SIGNATURES) {
      assert.match(advice, /^[A-Z“"'a-z][^]{9,}$/, id)
      assert.doesNotMatch(advice, /go here|\{\}/, `${id} has a placeholder`)
    }
    const known = new Set(SAMPLES.map((sample) => sample.id))
    assert.deepEqual(
      SIGNATURES.map((row) => row.id).filter((id) => !known.has(id)),
      [],
    )
  })

  for (const prefix of PREFIXES) {
    it(`recognise every sample after ${prefix === '' ? 'nothing' : JSON.stringify(prefix)}`, () => {
      for (const { id, sample } of SAMPLES.filter((row) => row.sample !== '')) {
        const text = sample
          .split('\n')
          .map((line) => prefix + line + (prefix.endsWith('msg="') ? '"' : ''))
          .join('\n')
        assert.deepEqual(
          diagnose(text).map((found) => `${found.id} ×${found.count}`),
          [`${id} ×1`],
        )
      }
    })
  }

  it('recognise silent crashes by their exit status', () => {
    const silent = SAMPLES.filter((row) => row.sample === '').map((row) => row.id)
    assert.deepEqual(silent.toSorted(), ['linux.sigbus_silent', 'node.unsettled_tla', 'python.segfault_silent'])
    assert.equal(diagnoseExit(readExit(13, null), 'node')?.id, 'node.unsettled_tla')
    assert.equal(diagnoseExit(readExit(null, 'SIGSEGV'), '/usr/bin/python3')?.id, 'python.segfault_silent')
    assert.equal(diagnoseExit(readExit(null, 'SIGBUS'), 'llama-server')?.id, 'linux.sigbus_silent')
  })

  for (const prefix of PREFIXES) {
    it(`find nothing fatal and no cause in the look-alikes after ${JSON.stringify(prefix)}`, () => {
      assert.equal(LOOK_ALIKES.length, 14)
      for (const { id, line } of LOOK_ALIKES) {
        const collector = collectDiagnostics()
        collector.line(prefix + line)
        const bad = collector.diagnoses().filter((found) => found.fatal || found.rank !== 'hint')
        assert.deepEqual(bad, [], id)
      }
    })
  }

  it('name a Metal timeout, a ring errno and a ring abort, and the errno on both systems', () => {
    const found = diagnose(
      [
        'libc++abi: terminating due to uncaught exception of type std::runtime_error: [METAL] Command buffer execution failed: Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)',
        '[ring] Receiving from socket 51 failed with errno 14',
        '[ring] Receiving from socket 3 failed with errno 54',
        '[ring] Too many send/recv errors. Aborting...',
      ].join('\n'),
    )
    assert.deepEqual(
      found.map(({ id, message }) => [id, message]),
      [
        ['mlx.metal_gpu_timeout', 'the Metal GPU timed out'],
        ['exo.ring_recv_errno', 'receiving from a ring neighbour failed (errno 14, EFAULT)'],
        [
          'exo.ring_recv_econnreset',
          'a ring neighbour reset the connection (errno 54, ECONNRESET on macOS, EXFULL on Linux)',
        ],
        ['exo.ring_abort', 'the ring transport gave up'],
      ],
    )
  })
})

describe('the collector', () => {
  const sample = 'x | \u001b[31m[ring] Receiving from socket 3 failed with errno 54\u001b[0m — naïve ✓\r\nmore\n'

  it('finds a signature once, wherever the stream is split', () => {
    const bytes = Buffer.from(sample)
    for (let first = 0; first <= bytes.length; first += 1) {
      const collector = collectDiagnostics()
      collector.push(bytes.subarray(0, first))
      collector.push(bytes.subarray(first))
      collector.end()
      assert.deepEqual(
        collector.diagnoses().map(({ id, count, evidence }) => [id, count, evidence]),
        [
          [
            'exo.ring_recv_econnreset',
            1,
            ['x | [ring] Receiving from socket 3 failed with errno 54 — naïve ✓', 'more'],
          ],
        ],
      )
    }
  })

  it('gives the same diagnoses however a sample is split into chunks', () => {
    const cuts = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 50 })
    fc.assert(
      fc.property(
        fc.constantFrom(...SAMPLES.filter((row) => row.sample !== '')),
        cuts,
        ({ id, sample: text }, sizes) => {
          const collector = collectDiagnostics()
          let rest = Buffer.from(text)
          for (let turn = 0; rest.length > 0; turn += 1) {
            const size = sizes[turn % sizes.length] ?? 1
            collector.push(rest.subarray(0, size))
            rest = rest.subarray(size)
          }
          collector.end()
          assert.deepEqual(
            collector.diagnoses().map((found) => found.id),
            [id],
          )
        },
      ),
      { numRuns: 300 },
    )
  })

  it('never throws on any bytes, and stays within its bounds', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 20 }), (chunks) => {
        const collector = collectDiagnostics()
        for (const chunk of chunks) collector.push(chunk)
        collector.end()
        collector.diagnoses()
      }),
    )
  })

  it('shows the cause before its consequences, and the first of two causes first', () => {
    const found = diagnose(
      [
        'MCP error -32000: Connection closed',
        'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB.',
        'RuntimeError: Engine core initialization failed. See root cause above.',
        'OSError: [Errno 98] Address already in use',
        'warning: failed to mlock 501870592-byte buffer (after previously locking 0 bytes): Cannot allocate memory',
      ].join('\n'),
    )
    assert.deepEqual(
      found.map(({ id, rank }) => `${rank} ${id}`),
      [
        'cause torch.cuda_oom',
        'cause python.port_in_use',
        'consequence mcp.connection_closed',
        'consequence vllm.core_init_failed',
        'hint llamacpp.mlock',
      ],
    )
  })

  it('counts a flood of one message instead of keeping it', () => {
    const collector = collectDiagnostics()
    for (let thread = 0; thread < 10_000; thread += 1) {
      collector.line(
        `OpenBLAS blas_thread_init: pthread_create failed for thread ${thread} of 64: Resource temporarily unavailable`,
      )
    }
    collector.line('after')
    const [only, ...more] = collector.diagnoses()
    assert.equal(more.length, 0)
    assert.equal(only?.count, 10_000)
    assert.equal(only?.evidence.length, 2)
  })

  it('keeps two lines before and four after as evidence, without colours and secrets', () => {
    const collector = collectDiagnostics()
    const lines = [
      'one',
      'two',
      'key sk-proj-4Jq9wZ7xTf2mN8rK1vBd',
      "thread 'main' panicked at src/main.rs:30:55:",
      'index',
    ]
    for (const line of [...lines, 'four', '\u001b[1mfive\u001b[0m', 'six', 'seven']) collector.line(line)
    assert.deepEqual(collector.diagnoses()[0]?.evidence, [
      'two',
      'key [redacted]',
      "thread 'main' panicked at src/main.rs:30:55:",
      'index',
      'four',
      'five',
      'six',
    ])
  })

  it('shows no half of a key from the environment, wherever a long line is cut', () => {
    const key = 'an-unusual-key-without-a-known-shape'
    for (let before = 200; before < 1_010; before += 1) {
      const collector = collectDiagnostics({ redactor: makeRedactor({ given: { API_KEY: key } }) })
      collector.line(`${'x '.repeat(before / 2)}${'-'.repeat(before % 2)} ${key} ${'y '.repeat(500)}`)
      collector.line("thread 'main' panicked at src/main.rs:30:55:")
      const said = collector.diagnoses()[0]?.evidence.join(' ') ?? ''
      for (const piece of [key.slice(0, 6), key.slice(-6)]) assert.ok(!said.includes(piece), `${before}: ${said}`)
    }
  })

  it('reports fatal lines, unless the program logged them as information', () => {
    const fatal = (line: string): boolean | undefined => {
      const collector = collectDiagnostics()
      collector.line(line)
      return collector.diagnoses()[0]?.fatal
    }
    assert.equal(fatal('[ring] Too many send/recv errors. Aborting...'), true)
    assert.equal(fatal('[error] [ring] Too many send/recv errors. Aborting...'), true)
    assert.equal(fatal('INFO replay: [ring] Too many send/recv errors. Aborting...'), false)
    assert.equal(fatal('[ring] Receiving from socket 3 failed with errno 54'), false)
  })

  it('reads a JSON log record as its message', () => {
    const found = diagnose('{"log":"CUDA error: out of memory\\n","stream":"stderr","time":"2026-11-15T12:00:00Z"}')
    assert.deepEqual(
      found.map((entry) => entry.id),
      ['llamacpp.cuda_oom_runtime'],
    )
  })

  it('joins a message that is wrapped over two lines', () => {
    const found = diagnose('[METAL] Command buffer execution failed:\nInsufficient Memory')
    assert.deepEqual(
      found.map((entry) => entry.id),
      ['mlx.metal_oom'],
    )
  })
})

it('shows no empty lines as evidence', () => {
  const [found] = diagnose('loading\n\nCUDA error: out of memory\n\n  current device: 0\n\n')
  assert.deepEqual(found?.evidence, ['loading', 'CUDA error: out of memory', 'current device: 0'])
})
