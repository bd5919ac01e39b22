/** No planted secret survives in any field of a report, and other text stays readable. */
import assert from 'node:assert/strict'
import test from 'node:test'
import fc from 'fast-check'
import { classify, Fault, redact, redactBounded, toProblem } from '@breakfall/faults'
import { fromProblem } from '../src/problem.ts'
import { filler, leaks, planted, SHAPES } from './planted.ts'

for (const [name, shape] of Object.entries(SHAPES)) {
  test(`a secret is removed from text: ${name}`, () => {
    fc.assert(
      fc.property(shape, filler(6), filler(6), (secret, before, after) => {
        for (const text of [secret.text, `${before} ${secret.text} ${after}`, `${before}\n${secret.text}\n${after}`]) {
          assert.equal(leaks(redact(text), secret.secret), undefined, redact(text))
        }
        const escaped = JSON.stringify({ body: `${before}\n${secret.text}` })
        assert.equal(leaks(redact(escaped), secret.secret), undefined, redact(escaped))
      }),
      { numRuns: 60 },
    )
  })
}

test('a key that contains what looks like another key is removed whole', () => {
  const [a, b] = ['A'.repeat(20), 'B'.repeat(40)]
  for (const key of [
    `eyJ-sk_${a}.${a}.${b}`,
    `github_pat_AAAAAAAAAA_sk_${a}7${b}`,
    `glpat-AAAA-sk-${a}7`,
    `AIza-hf_${a}_7`,
  ])
    assert.equal(redact(`key ${key} end`), 'key [redacted] end')
})

test('no planted secret survives in any field of a report', () => {
  fc.assert(
    fc.property(planted, filler(8), ({ text, secret }, said) => {
      const sentence = `${said} ${text} ${said}`
      const fault = new Fault('model_server_error', {
        error: sentence,
        errorRaw: sentence,
        phase: text,
        stopped: text,
        reason: text,
        at: text,
        retry: { attempt: 1, max: 2, nextAt: text },
        diagnostics: [
          {
            id: text,
            rank: 'cause',
            message: sentence,
            advice: sentence,
            retry: text,
            evidence: [text, sentence],
            count: 1,
          },
        ],
        errors: [{ field: text, expected: text, got: text }],
        turnId: text,
        stepId: text,
        callId: text,
        execId: text,
        boxId: text,
        boxState: text,
        requestId: text,
      })
      for (const report of [
        fault.report,
        fault.with({ turnId: 't2' }).report,
        toProblem(fault),
        fromProblem(toProblem(fault))?.report,
      ]) {
        for (const value of strings(report)) assert.equal(leaks(value, secret), undefined, value)
      }
      assert.equal(leaks(fault.message, secret), undefined)
      assert.equal(leaks(JSON.stringify(fault), secret), undefined)
    }),
    { numRuns: 300 },
  )
})

test('no planted secret survives from causes, response bodies, headers or an aggregate', () => {
  fc.assert(
    fc.property(planted, filler(8), ({ text, secret }, said) => {
      const sentence = `${said} ${text}`
      const nested = new Error('outer', {
        cause: new AggregateError([new Error(sentence), { apiError: sentence }, sentence], sentence, {
          cause: new Error(sentence),
        }),
      })
      const coded = Object.assign(new Error('x'), {
        code: text,
        name: text,
        hostname: text,
        address: text,
        syscall: text,
      })
      const reports = [
        classify(nested, { boundary: 'model', address: text, name: text }),
        classify(coded, { boundary: 'runner' }),
        classify(sentence, { boundary: 'box' }),
        ...[400, 401, 500].flatMap((status) => [
          classify(nested, {
            boundary: 'model',
            response: { status, body: { error: { message: sentence, code: text } } },
          }),
          classify(undefined, {
            boundary: 'model',
            response: { status, body: sentence, headers: { 'x-request-id': text } },
          }),
          classify(undefined, { boundary: 'runner', response: { status, body: sentence } }),
        ]),
        classify(nested, { boundary: 'model', signal: AbortSignal.abort(new Error(sentence)) }),
      ]
      for (const { report } of reports) {
        for (const value of strings(report)) assert.equal(leaks(value, secret), undefined, value)
      }
    }),
    { numRuns: 200 },
  )
})

test('no planted secret is uncovered by a cut, wherever the cut falls', () => {
  const CUTS = [300, 600, 1_000, 2_000, 4_096, 64 * 1024] // of a detail, a diagnostic, an error, a link, the raw error, the input
  fc.assert(
    fc.property(
      planted,
      fc.constantFrom(...CUTS),
      fc.integer({ min: 0, max: 1 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      ({ text, secret }, cut, longTail, where) => {
        const at = Math.max(0, Math.round(cut - where * text.length))
        const message = `${'x '.repeat(Math.ceil(at / 2)).slice(0, at - 1)} ${text}${longTail === 1 ? ' y'.repeat(cut) : ''}`
        const faults = [
          new Fault('other', { error: message, errorRaw: message }),
          classify(new Error('outer', { cause: new Error(message) }), { boundary: 'model' }),
          classify({ printed: message }, { boundary: 'model' }),
          classify(undefined, { boundary: 'model', response: { status: 500, body: message } }),
          classify(undefined, { boundary: 'model', response: { status: 500, body: { error: { message } } } }),
        ]
        for (const { report } of faults) {
          for (const value of strings(report)) assert.equal(leaks(value, secret), undefined, `cut ${cut} at ${at}`)
        }
      },
    ),
    { numRuns: 150 },
  )
})

test('no half of a secret is left in a text that is too long to search', () => {
  for (const [name, shape] of Object.entries(SHAPES)) {
    for (const { text, secret } of fc.sample(shape, { numRuns: 1, seed: 2 })) {
      const start = text.indexOf(secret)
      for (const kept of [10, 16, 24, secret.length - 2].filter((chars) => chars < secret.length)) {
        const before = 64 * 1024 - start - kept
        const out = redactBounded(
          `${'x '.repeat(before / 2 + 1).slice(1 - (before % 2), before)} ${text} and more`,
          4_096,
        )
        assert.equal(leaks(out, secret), undefined, `${name}, ${kept} characters before the cut: ${out.slice(-120)}`)
      }
    }
  }
})

test('a password in a field error is redacted by the name of its field', () => {
  const fault = new Fault('invalid_request', {
    errors: [{ field: 'env.DB_PASSWORD', expected: 'a string', got: 'hunter22' }],
  })
  assert.deepEqual(fault.report.errors, [{ field: 'env.DB_PASSWORD', expected: 'a string', got: '[redacted]' }])
})

test('redacting twice changes nothing', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.oneof(
          planted.map(({ text }) => text),
          filler(4),
        ),
        { maxLength: 6 },
      ),
      (parts) => {
        const once = redact(parts.join(' '))
        assert.equal(redact(once), once)
      },
    ),
    { numRuns: 400 },
  )
})

test('the name of a secret stays, the value goes', () => {
  const rows: readonly [string, string][] = [
    ['Authorization: Bearer abc.def.ghi', 'Authorization: Bearer [redacted]'],
    ['postgres://u:p@h/db', 'postgres://[redacted]@h/db'],
    ['GET /x?api_key=0123456789abcdef&page=2', 'GET /x?api_key=[redacted]&page=2'],
    ['{"apiKey":"v4lue","model":"m"}', '{"apiKey":"[redacted]","model":"m"}'],
    ['OPENAI_API_KEY=abcdefgh next', 'OPENAI_API_KEY=[redacted] next'],
    ['Incorrect API key provided: sk-proj-aB3dE6gH9jK2mN5pQ8.', 'Incorrect API key provided: [redacted].'],
  ]
  for (const [text, clean] of rows) assert.equal(redact(text), clean)
})

test('harmless text is unchanged', () => {
  for (const text of [
    'token limit of 4096 tokens',
    'password reset page',
    'max_tokens: 4096, prompt_tokens: 120',
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
    'Unexpected token < in JSON at position 0',
    'Unexpected token: punctuation',
    'bearer token expired',
    'This request needs a valid token. Send the header Authorization: Bearer TOKEN.',
    'WWW-Authenticate: Bearer realm="api", error="invalid_token"',
    'basic understanding of authentication',
    'password: required',
    '{"token":null,"password":false}',
    'connect ECONNREFUSED 127.0.0.1:54321',
    'http://127.0.0.1:8080/v1/boxes/b1/files/pkg@1.2.3',
    'https://registry.test/@scope/name?sort_key=name&page=2',
    'mail alice@example.test about https://example.test/a',
    'risk-management-and-task-scheduling-for-everyone',
    'sk-learn-pipeline-with-many-steps',
    '/home/me/.npm/_logs and npm_config_some_long_setting',
    'the secret of good error messages',
    'cookies are not supported here',
    'pwd: /home/me/project',
    '0198c2f0-7d1e-7cc2-a1b2-0123456789ab',
    'req_011CSHoEeqs5C35K2UUqR7Fy',
    'commit c06d2149b1a3c2f1e5d4a7b8c9d0e1f2a3b4c5d6',
    'dial tcp 10.0.0.9:443: connect: connection refused',
  ]) {
    assert.equal(redact(text), text)
  }
})

/** Any character except half a surrogate pair. (`unit: 'binary'` means the same, but takes a second to set up.) */
const character = fc.integer({ min: 0, max: 0x10f7ff }).map((n) => String.fromCodePoint(n < 0xd800 ? n : n + 0x800))

test('a bounded text keeps its head and its tail, says how much is missing, and is valid Unicode', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: character, minLength: 100, maxLength: 6_000 }),
      fc.integer({ min: 60, max: 4_096 }),
      (text, max) => {
        const out = redactBounded(text, max)
        assert.ok(out.length <= max)
        assert.ok(out.isWellFormed())
        if (text.length > max * 2) assert.match(out, /characters left out/)
      },
    ),
    { numRuns: 40 },
  )
})

function strings(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(strings) : []
}
