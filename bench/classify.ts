/** What it costs to classify an error, against constructing and throwing a plain Error. */
import { classify } from '@breakfall/faults'
import { barPlot, compare, report, round, table } from './kit.ts'

const COUNT = 20_000

const refused = Object.assign(new TypeError('fetch failed'), {
  cause: Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:54321'), {
    code: 'ECONNREFUSED',
    syscall: 'connect',
    address: '127.0.0.1',
    port: 54321,
  }),
})
const body = {
  error: { message: 'Rate limit reached for gpt', type: 'requests', param: null, code: 'rate_limit_exceeded' },
}

const results = await compare([
  {
    name: 'new Error, thrown and caught',
    run: () => {
      for (let i = 0; i < COUNT; i++) {
        try {
          throw new Error('connect ECONNREFUSED 127.0.0.1:54321')
        } catch (error) {
          if (error === undefined) return
        }
      }
    },
  },
  {
    name: 'classify a refused connection',
    run: () => {
      for (let i = 0; i < COUNT; i++) classify(refused, { boundary: 'runner' })
    },
  },
  {
    name: 'classify a 429 with a body',
    run: () => {
      for (let i = 0; i < COUNT; i++)
        classify(undefined, {
          boundary: 'model',
          now: 0,
          response: { status: 429, headers: { 'retry-after': '2' }, body },
        })
    },
  },
])

const micros = (ms: number): number => round((ms * 1000) / COUNT)
report('classify', {
  title: 'Classifying an error',
  text: table(
    ['what', 'CPU µs each', 'times a thrown Error'],
    results.map((r) => [r.name, micros(r.cpuMs), round(r.ratio)]),
  ),
  svg: barPlot(
    'CPU per error (µs)',
    results.map((r) => ({ name: r.name, value: micros(r.cpuMs) })),
    { unit: ' µs' },
  ),
})
