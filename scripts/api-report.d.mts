export function apiReport(
  name: string,
  manifest: { name: string; exports: Record<string, string> },
  types: string,
): string
export function namesIn(report: string): string[]
export function exportsOf(file: string): Map<string, string>
