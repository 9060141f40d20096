import { expect, test } from "vitest";

// By a name that the compiler does not follow: the form's fields are JSX, which only the console's own project compiles.
const path = "../../../console/src/parts/draft.ts";
const { bodyOf, EMPTY_DRAFT } = await import(path);

test("the editor sends the setting of the calling program's tools", () => {
  expect(bodyOf({ ...EMPTY_DRAFT, client_tools: "pass" }).client_tools).toBe("pass");
  expect(bodyOf(EMPTY_DRAFT).client_tools).toBe("ignore");
});

test("saving an agent keeps the settings of a tool that the form does not show", () => {
  const tools_kept = { almanac: { enabled: true } };
  expect(bodyOf({ ...EMPTY_DRAFT, tools_kept }).tools_config).toMatchObject({ almanac: { enabled: true } });
});
