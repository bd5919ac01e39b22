/**
 * A small runner for ratio benchmarks: candidates take turns (interleaved, so a busy minute affects all of them), each is
 * warmed up, the median counts, and CPU time is measured beside wall time. The report is Markdown with an SVG plot.
 * Absolute numbers belong to the machine; the ratio to the floor, measured in the same run, is the result.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export type Candidate = { readonly name: string; readonly run: () => void | Promise<void> }

export type Measured = {
  readonly name: string
  /** Milliseconds per repetition: median, and the middle half. */
  readonly wallMs: number
  readonly cpuMs: number
  readonly cpuMsQuartiles: readonly [number, number]
  /** Median of the per-round ratios to the first candidate, by CPU. */
  readonly ratio: number
}

/** Measures the candidates in turns. The first is the floor that the others are compared with. */
export async function compare(
  candidates: readonly Candidate[],
  options: { rounds?: number; warmUp?: number } = {},
): Promise<readonly Measured[]> {
  const { rounds = 15, warmUp = 3 } = options
  for (let i = 0; i < warmUp; i++) for (const candidate of candidates) await candidate.run()
  const samples = candidates.map(() => ({ wall: [] as number[], cpu: [] as number[] }))
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < candidates.length; turn++) {
      const index = (turn + round) % candidates.length // no candidate is always first
      const wallFrom = performance.now()
      const cpuFrom = process.cpuUsage()
      await candidates[index]?.run()
      const { user, system } = process.cpuUsage(cpuFrom)
      samples[index]?.wall.push(performance.now() - wallFrom)
      samples[index]?.cpu.push((user + system) / 1000)
    }
  }
  const floor = samples[0]?.cpu ?? []
  return candidates.map(({ name }, index) => {
    const { wall, cpu } = samples[index] ?? { wall: [], cpu: [] }
    return {
      name,
      wallMs: quantile(wall, 0.5),
      cpuMs: quantile(cpu, 0.5),
      cpuMsQuartiles: [quantile(cpu, 0.25), quantile(cpu, 0.75)] as const,
      ratio: quantile(
        cpu.map((value, round) => value / (floor[round] ?? value)),
        0.5,
      ),
    }
  })
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  if (sorted.length === 0) return Number.NaN
  const at = (sorted.length - 1) * q
  const low = sorted[Math.floor(at)] ?? Number.NaN
  const high = sorted[Math.ceil(at)] ?? Number.NaN
  return low + (high - low) * (at - Math.floor(at))
}

export function table(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, i) => (i === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n')
}

/** Horizontal bars with their values, readable in light and dark. */
export function barPlot(
  title: string,
  bars: readonly { name: string; value: number; label?: string }[],
  options: { goal?: number; unit?: string } = {},
): string {
  const max = Math.max(options.goal ?? 0, ...bars.map(({ value }) => value)) * 1.1 || 1
  const width = 720
  const left = 230
  const row = 30
  const height = 46 + bars.length * row + 12
  const x = (value: number): number => left + ((width - left - 90) * value) / max
  const goal =
    options.goal === undefined
      ? ''
      : `<line x1="${x(options.goal)}" x2="${x(options.goal)}" y1="34" y2="${height - 8}" stroke="#c2410c" stroke-dasharray="4 3"/><text x="${x(options.goal) + 4}" y="${height - 2}" font-size="11" fill="#c2410c">goal ${options.goal}${options.unit ?? ''}</text>`
  const drawn = bars.map(({ name, value, label }, i) => {
    const y = 42 + i * row
    return `<text x="${left - 8}" y="${y + 14}" text-anchor="end" font-size="13" fill="#6b7280">${escapeXml(name)}</text><rect x="${left}" y="${y}" width="${Math.max(1, x(value) - left)}" height="20" rx="3" fill="${i === 0 ? '#9ca3af' : '#0d9488'}"/><text x="${x(value) + 6}" y="${y + 15}" font-size="13" fill="#6b7280">${escapeXml(label ?? `${round(value)}${options.unit ?? ''}`)}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" role="img"><title>${escapeXml(title)}</title><text x="8" y="22" font-size="15" font-weight="600" fill="#6b7280">${escapeXml(title)}</text>${goal}${drawn.join('')}</svg>\n`
}

/** Lines over x, one per series: how something changes with load or with the rate of faults. */
export function linePlot(
  title: string,
  series: readonly { name: string; points: readonly (readonly [number, number])[] }[],
  axes: { x: string; y: string; yMax?: number },
): string {
  const [width, height, left, bottom] = [720, 340, 60, 60]
  const xs = series.flatMap(({ points }) => points.map(([px]) => px))
  const ys = series.flatMap(({ points }) => points.map(([, py]) => py))
  const [xMax, yMax] = [Math.max(...xs, 1e-9), axes.yMax ?? Math.max(...ys, 1e-9)]
  const x = (value: number): number => left + ((width - left - 170) * value) / xMax
  const y = (value: number): number => height - bottom - ((height - bottom - 40) * value) / yMax
  const colours = ['#0d9488', '#c2410c', '#7c3aed', '#2563eb', '#6b7280']
  const ticks = [...new Set(xs)]
    .sort((a, b) => a - b)
    .map(
      (value) =>
        `<text x="${x(value)}" y="${height - bottom + 18}" text-anchor="middle" font-size="11" fill="#6b7280">${value}</text>`,
    )
  const levels = [0, 0.25, 0.5, 0.75, 1].map(
    (part) =>
      `<line x1="${left}" x2="${width - 170}" y1="${y(part * yMax)}" y2="${y(part * yMax)}" stroke="#9ca3af" stroke-opacity="0.3"/><text x="${left - 6}" y="${y(part * yMax) + 4}" text-anchor="end" font-size="11" fill="#6b7280">${round(part * yMax)}</text>`,
  )
  const lines = series.map(({ name, points }, i) => {
    const colour = colours[i % colours.length] ?? '#6b7280'
    const path = points
      .map(([px, py], index) => `${index === 0 ? 'M' : 'L'}${x(px).toFixed(1)} ${y(py).toFixed(1)}`)
      .join('')
    const dots = points.map(([px, py]) => `<circle cx="${x(px)}" cy="${y(py)}" r="3" fill="${colour}"/>`).join('')
    return `<path d="${path}" fill="none" stroke="${colour}" stroke-width="2"/>${dots}<text x="${width - 160}" y="${50 + i * 20}" font-size="13" fill="${colour}">${escapeXml(name)}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" role="img"><title>${escapeXml(title)}</title><text x="8" y="22" font-size="15" font-weight="600" fill="#6b7280">${escapeXml(title)}</text>${levels.join('')}${ticks.join('')}<text x="${(left + width - 170) / 2}" y="${height - 14}" text-anchor="middle" font-size="12" fill="#6b7280">${escapeXml(axes.x)}</text><text x="14" y="${height / 2}" transform="rotate(-90 14 ${height / 2})" text-anchor="middle" font-size="12" fill="#6b7280">${escapeXml(axes.y)}</text>${lines.join('')}</svg>\n`
}

/** Writes `bench/reports/NAME.md` (and `NAME.svg`), prints the text, and says on what it was measured. */
export function report(name: string, sections: { title: string; text: string; svg?: string; command?: string }): void {
  const folder = join(dirname(fileURLToPath(import.meta.url)), 'reports')
  mkdirSync(folder, { recursive: true })
  const picture = sections.svg === undefined ? '' : `\n![${sections.title}](${name}.svg)\n`
  const text = `# ${sections.title}\n\n\`${sections.command ?? `node bench/${name}.ts`}\`, ${machine()}\n\n${sections.text}\n${picture}`
  if (sections.svg !== undefined) writeFileSync(join(folder, `${name}.svg`), sections.svg)
  writeFileSync(join(folder, `${name}.md`), text)
  process.stdout.write(text + '\n')
}

export const round = (value: number): number => Number(value.toPrecision(3))

// ---- details ----

function machine(): string {
  const cores = availableParallelism()
  const gib = Math.round(totalmem() / 2 ** 30)
  let commit = 'no commit'
  try {
    commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
  } catch {
    // a tarball without git: the report simply names no commit
  }
  return `Node ${process.version}, ${process.platform} ${process.arch}, ${cores} cores, ${gib} GiB, ${new Date().toISOString().slice(0, 10)}, at ${commit}`
}

const escapeXml = (text: string): string => text.replace(/[<>&"]/g, (c) => `&#${c.charCodeAt(0)};`)
