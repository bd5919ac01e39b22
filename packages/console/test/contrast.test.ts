/** The colours, computed from tokens.css: contrast on page and panel, and distance between states for colour-blind readers (62). */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

const css = readFileSync(new URL('../src/ui/tokens.css', import.meta.url), 'utf8')
const tokens = new Map(
  [...css.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)].map(
    ([, name = '', light = '', dark = '']) => [name, { light, dark }],
  ),
)

const THEMES = ['light', 'dark'] as const
const STATES = ['running', 'finished', 'retrying', 'parked', 'failed', 'unknown'] as const

type Rgb = readonly [number, number, number]
const triple = ([a = 0, b = 0, c = 0]: readonly number[]): Rgb => [a, b, c]

const colour = (name: string, theme: 'light' | 'dark'): Rgb => {
  const hex = tokens.get(name)?.[theme] ?? ''
  return triple([1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255))
}
const linear = (c: number): number => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
const luminance = (rgb: Rgb): number => {
  const [r, g, b] = triple(rgb.map(linear))
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}
function contrast(a: Rgb, b: Rgb): number {
  const [high, low] = triple([luminance(a), luminance(b)].toSorted((x, y) => y - x))
  return (high + 0.05) / (low + 0.05)
}

test('text, muted text and every state have a contrast of at least 4.5 on page and panel; borders 3', () => {
  for (const theme of THEMES)
    for (const under of ['page', 'panel'])
      for (const [name, least] of [
        ...STATES.map((state) => [state, 4.5] as const),
        ['cancelled', 4.5] as const,
        ['text', 4.5] as const,
        ['muted', 4.5] as const,
        ['border', 3] as const,
      ]) {
        const ratio = contrast(colour(name, theme), colour(under, theme))
        assert.ok(ratio >= least, `${name} on ${under}, ${theme}: ${ratio.toFixed(2)}`)
      }
})

/** Machado, Oliveira and Fernandes 2009, full severity, on linear RGB. */
const SIGHT: Readonly<Record<string, readonly Rgb[]>> = {
  normal: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protan: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deutan: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritan: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
}
const LEAST = {
  light: { normal: 15.5, protan: 8.8, deutan: 9.2, tritan: 11.3 },
  dark: { normal: 20.6, protan: 10.7, deutan: 12.1, tritan: 9.8 },
} as const

test('no two states look alike, for any kind of sight', () => {
  for (const theme of THEMES)
    for (const [sight, matrix] of Object.entries(SIGHT)) {
      const labs = STATES.map((state) =>
        lab(
          triple(
            matrix.map((row) =>
              colour(state, theme)
                .map(linear)
                .reduce((sum, c, at) => sum + c * (row[at] ?? 0), 0),
            ),
          ),
        ),
      )
      const distances = labs.flatMap((a, i) => labs.slice(i + 1).map((b) => deltaE(a, b)))
      const least = LEAST[theme][sight as keyof (typeof LEAST)['light']]
      assert.ok(Math.min(...distances) >= least, `${theme}, ${sight}: ${Math.min(...distances).toFixed(1)}`)
    }
})

// ---- CIE Lab and CIEDE2000 ----

function lab(linearRgb: Rgb): Rgb {
  const [r, g, b] = triple(linearRgb.map((c) => Math.min(1, Math.max(0, c))))
  const x = (0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047
  const y = 0.2126729 * r + 0.7151522 * g + 0.072175 * b
  const z = (0.0193339 * r + 0.119192 * g + 0.9503041 * b) / 1.08883
  const f = (t: number): number => (t > 216 / 24_389 ? Math.cbrt(t) : (24_389 / 27 / 116) * t + 16 / 116)
  return [116 * f(y) - 16, 500 * (f(x) - f(y)), 200 * (f(y) - f(z))]
}

function deltaE([l1, a1, b1]: Rgb, [l2, a2, b2]: Rgb): number {
  const rad = Math.PI / 180
  const cBar = (Math.hypot(a1, b1) + Math.hypot(a2, b2)) / 2
  const g = 0.5 * (1 - Math.sqrt(cBar ** 7 / (cBar ** 7 + 25 ** 7)))
  const [p1, p2] = [a1 * (1 + g), a2 * (1 + g)]
  const [c1, c2] = [Math.hypot(p1, b1), Math.hypot(p2, b2)]
  const hue = (b: number, a: number): number => (Math.atan2(b, a) / rad + 360) % 360
  const [h1, h2] = [hue(b1, p1), hue(b2, p2)]
  let dh = h2 - h1
  if (dh > 180) dh -= 360
  if (dh < -180) dh += 360
  const dH = 2 * Math.sqrt(c1 * c2) * Math.sin((dh / 2) * rad)
  const [lBar, cMean] = [(l1 + l2) / 2, (c1 + c2) / 2]
  let hBar = (h1 + h2) / 2
  if (Math.abs(h1 - h2) > 180) hBar += h1 + h2 < 360 ? 180 : -180
  const t =
    1 -
    0.17 * Math.cos((hBar - 30) * rad) +
    0.24 * Math.cos(2 * hBar * rad) +
    0.32 * Math.cos((3 * hBar + 6) * rad) -
    0.2 * Math.cos((4 * hBar - 63) * rad)
  const sl = 1 + (0.015 * (lBar - 50) ** 2) / Math.sqrt(20 + (lBar - 50) ** 2)
  const sc = 1 + 0.045 * cMean
  const sh = 1 + 0.015 * cMean * t
  const rt =
    -2 * Math.sqrt(cMean ** 7 / (cMean ** 7 + 25 ** 7)) * Math.sin(60 * Math.exp(-(((hBar - 275) / 25) ** 2)) * rad)
  return Math.sqrt(((l2 - l1) / sl) ** 2 + ((c2 - c1) / sc) ** 2 + (dH / sh) ** 2 + rt * ((c2 - c1) / sc) * (dH / sh))
}
