/** The journals of the sessions on the stage: what each has been through. */
import { Journal } from './journal.ts'
import { IDS } from './stage-ids.ts'

export function journalOf(key: keyof typeof IDS, now: number): Journal['events'] {
  switch (key) {
    case 'retrying':
      return retryingJournal(now)
    case 'needs':
      return new Journal(IDS.needs, now - 780_000)
        .turn('t1', 'Fix the date parser')
        .wait(80)
        .step()
        .say('I will read the parser first.')
        .call('read', { path: 'src/parse-date.ts' })
        .wait(40)
        .result('ok', 'export function parseDate(text: string) {\n  return new Date(text)\n}', null)
        .step()
        .wait(300)
        .add('parked', {
          fault: {
            ...new Journal('', now).fault(
              'model_auth_failed',
              '401 {"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}',
            ),
            class: 'needs_action',
            message: {
              happened: 'The provider at api.example.com rejected the API key.',
              action: 'The turn is parked.',
              advice: 'Set another key in OPENAI_API_KEY; the turn continues on its own.',
            },
          },
          resumeAt: null,
        }).events
    case 'parked':
      return new Journal(IDS.parked, now - 5_500_000)
        .turn('t1', 'Nightly refactoring of the billing module')
        .wait(50)
        .step()
        .say('Let me look at the module.')
        .call('bash', { command: 'ls src/billing' })
        .output('invoice.ts\nledger.ts\n')
        .result('ok', '')
        .step()
        .wait(90)
        .retry('model_unreachable', 'connect ECONNREFUSED 127.0.0.1:8080', 2_000)
        .wait(2_100)
        .add('parked', {
          fault: new Journal('', now).fault('model_unreachable', 'connect ECONNREFUSED 127.0.0.1:8080'),
          resumeAt: iso(now + 41_000),
        }).events
    case 'approval':
      return new Journal(IDS.approval, now - 95_000)
        .turn('t1', 'Tidy up the issue tracker')
        .wait(60)
        .step()
        .say('Issue 7 was fixed last week, so I close it.')
        .call('mcp__tracker__close_issue', { issue: 7, comment: 'Fixed in 0.2.' })
        .add('approval-requested', {
          callId: 'c1',
          tool: 'mcp__tracker__close_issue',
          arguments: { issue: 7, comment: 'Fixed in 0.2.' },
          why: 'The server tracker is not trusted to declare its tools as read-only.',
          expiresAt: iso(now + 3_600_000),
        })
        .add('parked', {
          fault: new Journal('', now).fault('approval_needed', 'mcp__tracker__close_issue'),
          resumeAt: null,
          because: 'approval_needed',
        }).events
    case 'unknown':
      return new Journal(IDS.unknown, now - 60_000)
        .turn('t1', 'Deploy the preview')
        .wait(50)
        .step()
        .say('Everything is built. I deploy the preview now.')
        .call('bash', { command: 'npm run release' })
        .output('uploading 14 files\n')
        .wait(4_000)
        .result('unknown', 'the runner is gone and kept no record of the exec.', null)
        .step()
        .say('It is not known whether the release ran, so I look at the server before I repeat it.').events
    case 'finished':
      return finishedJournal(now)
    case 'running':
      return longJournal(now)
    case 'failed':
      return new Journal(IDS.failed, now - 4_000_000)
        .turn('t1', 'Port the build to ESM')
        .wait(20)
        .step()
        .say('I start with package.json.')
        .retry('model_overloaded', '503 no slot available', 900)
        .wait(950)
        .retry('model_overloaded', '503 no slot available', 1_900)
        .wait(2_000)
        .fail('model_bad_request', '400 {"error":"tools are not supported"}', {
          message: {
            happened: 'The model provider rejected the request.',
            advice: 'Use a model that can call tools, or start a session without tools.',
          },
        }).events
    case 'cancelled':
      return new Journal(IDS.cancelled, now - 7_400_000)
        .turn('t1', 'Try another formatter')
        .step()
        .say('I look at the options.')
        .fail('cancelled', 'cancelled by the user', { actor: 'user', message: { happened: 'The turn was cancelled.' } })
        .events
    case 'abandoned':
    case 'quarantined':
    case 'queued':
      return new Journal(IDS[key], now - 60_000)
        .turn('t1', 'Upgrade the linter')
        .wait(20)
        .step()
        .say('I look at the configuration first.').events
  }
}

/** Every kind of scar: a cut, a stall, an overload, a killed daemon, a moved runner. */
function retryingJournal(now: number): Journal['events'] {
  const journal = new Journal(IDS.retrying, now - 205_000).turn('t1', 'Make the flaky test pass').wait(60)
  for (let n = 1; n <= 7; n += 1)
    journal
      .step()
      .say(`Line ${n} is checked.`, 700)
      .call('bash', { command: `sed -n ${n}p test/parser.test.ts` })
      .output(`assert.equal(parse('${n}'), ${n})\n`)
      .result('ok', '')
  journal
    .step()
    .say('The test fails because the clo', 800)
    .wait(8_200)
    .retry('model_stream_interrupted', 'TypeError: terminated\n  cause: read ECONNRESET', 400)
    .wait(420)
    .say('The test fails because the clock is read twice.', 900)
    .call('bash', { command: 'npm test' })
    .wait(120)
    .retry('runner_unreachable', 'connect ECONNREFUSED 127.0.0.1:41231', 300, {
      action: 'resolve',
      event: { callId: 'c8' },
    })
    .wait(330)
    .retry('runner_unreachable', 'connect ECONNREFUSED 127.0.0.1:41231', 700, {
      action: 'resolve',
      event: { callId: 'c8' },
    })
    .wait(740)
    .output('FAIL test/parser.test.ts\n  ✗ parses a date at midnight\n9 of 214 tests failed\n', 2_000)
    .result('failed', '', 1)
  journal
    .step()
    .say('I pass the clock in as an argument.', 600)
    .wait(200)
    .wait(4_100)
    .add('taken-over', { epoch: 2 })
    .say(' Then the test decides the time.', 500)
    .call('edit', {
      path: 'src/parser.ts',
      old: 'export function parse(text) {\n  const now = Date.now()\n  return read(text, now)\n}',
      new: 'export function parse(text, now = Date.now()) {\n  return read(text, now)\n}',
    })
    .wait(30)
    .result('ok', 'edited src/parser.ts', null)
  journal
    .step()
    .say('Now the tests again.', 300, 'reasoning-delta')
    .say('Let me run the tests', 300)
    .wait(118_000)
    .retry('model_stream_stalled', 'no byte for 118000 ms', 400)
    .wait(430)
    .wait(200)
  return journal
    .retry('model_overloaded', '503 {"error":"no slot available"}', 4_000)
    .wait(4_100)
    .wait(200)
    .retry('model_overloaded', '503 {"error":"no slot available"}', now + 27_000 - journal.now).events
}

function finishedJournal(now: number): Journal['events'] {
  const journal = new Journal(IDS.finished, now - 138_000)
    .turn('t1', 'A check in this folder fails. Find the cause, fix the code, and show that all checks pass.')
    .wait(30)
  journal
    .step()
    .say('I know nothing about this folder yet, so I start by listing its files.', 200, 'reasoning-delta')
    .say('Let me look around first.')
    .call('bash', { command: 'ls -l' })
    .output('README.md\nslug.sh\ntest.sh\n')
    .result('ok', '')
  journal
    .step()
    .say('test.sh checks the code in', 300)
    .retry('model_stream_interrupted', 'TypeError: terminated: read ECONNRESET', 120)
    .wait(140)
    .say('`test.sh` checks the code in `slug.sh`. Let me read both.')
    .call('read', { path: 'slug.sh' })
    .wait(20)
    .result('ok', "#!/bin/sh\nprintf '%s\\n' \"$*\" | tr ' ' '-'", null)
  journal
    .step()
    .say('Now let me run the checks.')
    .call('bash', { command: 'sh test.sh' })
    .output(
      "ok: 'Hello World' gives hello-world\n\u001b[31mFAILED\u001b[0m: 'Two  blanks' gives two--blanks, expected two-blanks\n",
    )
    .result('failed', '', 1)
  journal
    .step()
    .say('Every blank becomes a da', 300)
    .wait(3_200)
    .retry('model_stream_stalled', 'no byte for 3200 ms', 90)
    .wait(100)
    .say('Two blanks in a row become two dashes. `tr -s` squeezes them into one, so I will change that line.')
    .call('edit', { path: 'slug.sh', old: "tr ' ' '-'", new: "tr -s ' ' '-'" })
    .wait(20)
    .result('ok', 'edited slug.sh', null)
  journal
    .step()
    .say('Let me run the checks again.')
    .call('bash', { command: 'sh test.sh' })
    .output(
      "ok: 'Hello World' gives hello-world\nok: 'Two  blanks' gives two-blanks\n\u001b[32mall 4 checks passed\u001b[0m\n",
    )
    .result('ok', '')
  const text =
    'All **4 checks pass** now.\n\nThe cause: `tr` turned every blank into its own dash.\n\n1. I read `test.sh` and `slug.sh`.\n2. I changed one line: `tr -s` squeezes a run of blanks.\n\n```sh\nsh test.sh   # all 4 checks passed\n```\n'
  return journal.step().say(text, 900).end(text, 2).events
}

function longJournal(now: number): Journal['events'] {
  const journal = new Journal(IDS.running, now - 95_000).turn('t1', 'Write the release notes for 0.2').wait(40)
  for (let n = 1; n <= 33; n += 1) {
    journal.step()
    if (n % 8 === 5)
      journal
        .say('The change', 200)
        .wait(300)
        .retry('model_stream_interrupted', 'read ECONNRESET', 200 * n)
        .wait(200 * n)
    journal
      .say(`The change in commit ${n} is about the parser.`, 500)
      .call('bash', { command: `git show --stat HEAD~${n}` })
      .output(` src/parser.ts | ${n} +-\n`)
      .result('ok', '')
  }
  return journal.step().say('Now I write the notes:\n\n- parser: dates without a zone', 400).events
}

const iso = (ms: number): string => new Date(ms).toISOString()
