/**
 * What the conformance suite starts as its client: `node conformance-client.mjs ADDRESS URL`. The client under test runs in the test's
 * own process, at ADDRESS, because 25 processes at a time that load it would take too long.
 */
const [address, url] = process.argv.slice(2)
const { MCP_CONFORMANCE_SCENARIO: scenario, MCP_CONFORMANCE_CONTEXT: context = '{}' } = process.env
const answer = await fetch(address, {
  method: 'POST',
  body: JSON.stringify({ url, scenario, context: JSON.parse(context) }),
})
process.stdout.write(await answer.text())
